from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest
from bench.index import EPOCHS, KEYS, Index, growth, measure, targets
from bench.index_child import numbers
from bench.index_data import key, shards

from bench import index
from stoker_plugins.read import WebDataset, indexcache


def test_shares_of_an_epoch_are_all_keys_once() -> None:
    for epoch in range(2):
        shares = [list(numbers(1000, worker, 3, epoch)) for worker in range(3)]
        assert sorted(chain(*shares)) == list(range(1000))
        assert shares[0] != sorted(shares[0])


def test_the_data_set_is_read_by_its_kept_index(tmp_path: Path) -> None:
    made, pattern = shards(tmp_path, 100)
    assert indexcache.beside([one.path for one in made]).exists()
    source = WebDataset(pattern)
    assert [source.origin(number).key for number in range(100)] == [key(n) for n in range(100)]
    sample = source.read(57)
    assert (sample["__key__"], len(sample["jpg"]), len(sample["cls"])) == (key(57), 64, 64)


def test_growth_is_that_of_the_worker_that_grew_most() -> None:
    assert growth([[10, 20], [12, 20], [11, 25]]) == 5
    assert growth([[10, 20], [9, 20]]) == 0


def test_a_copy_in_each_worker_misses_the_target() -> None:
    flat = Index(100, 5000, 400, [[10, 10], [20, 60]], [[10, 10], [20, 60]])
    grown = Index(100, 5000, 400, [[10, 10], [20, 5000]], [[10, 10], [20, 60]])
    wide = Index(100, 9700, 400, [[10, 10], [20, 60]], [[10, 10], [20, 60]])
    assert [target.met for target in targets([flat])] == [True, True]
    assert [target.met for target in targets([grown])] == [True, False]
    assert [target.met for target in targets([wide])] == [False, True]


def test_a_worker_that_fails_ends_the_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index.sys, "executable", "/bin/false")
    with pytest.raises(RuntimeError, match="ended early"):
        index._children("nowhere/*.tar", [0])


@pytest.mark.slow
def test_B24_private_memory_of_workers_stays_flat_over_three_epochs() -> None:
    found = measure(KEYS, 60_000)
    assert found.bytes_a_key <= 100
    assert len(found.private) == EPOCHS + 1
    assert found.growth_a_key < 1
    # All of the index is in the memory of each, and in none of its own.
    for private, proportional in zip(found.private[-1], found.proportional[-1], strict=True):
        assert proportional - private > found.columns_nbytes / 4
        assert private < found.columns_nbytes
