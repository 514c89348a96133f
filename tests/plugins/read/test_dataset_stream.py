from collections.abc import Iterator
from typing import Any

import pytest
from torch.utils.data import IterableDataset

from stoker.plugins import host
from stoker.rng import Rng
from stoker.testing import check_stage, read_all
from stoker_plugins.read import DatasetStream
from tests.plugins.read.helpers import cautions, problems


class Streaming(IterableDataset[tuple[int, int]]):
    def __iter__(self) -> Iterator[tuple[int, int]]:
        return ((number, number * number) for number in range(3))


def test_contract() -> None:
    check_stage(DatasetStream([1, 2, 3]))
    check_stage(DatasetStream(range(3), fields=("number",)))
    assert host().stage_class("read.dataset_stream") is DatasetStream


def test_items_become_samples_in_every_epoch() -> None:
    source = DatasetStream(Streaming(), fields=("n", "square"))
    assert problems(source) == cautions(source) == []
    for epoch in range(2):
        assert list(read_all(source, epoch=epoch)) == [
            {"__key__": str(n), "__url__": "Streaming", "n": n, "square": n * n} for n in range(3)
        ]


def test_it_is_one_shard() -> None:
    assert list(DatasetStream([1]).shards(0, Rng(0, "x"))) == ["list"]


def test_an_iterator_lasts_for_one_epoch() -> None:
    source = DatasetStream(number for number in range(3))
    assert "lasts for one epoch" in cautions(source)[0]
    assert [sample["data"] for sample in read_all(source)] == [0, 1, 2]
    with pytest.raises(ValueError, match="the generator is used up"):
        list(read_all(source, epoch=1))


def test_an_empty_iterable_is_an_empty_epoch() -> None:
    assert list(read_all(DatasetStream([]))) == []


@pytest.mark.parametrize(
    ("dataset", "says"), [(3, "has no __iter__"), ("lines.txt", "is text, not a dataset")]
)
def test_what_is_no_iterable(dataset: Any, says: str) -> None:
    (said,) = problems(DatasetStream(dataset))
    assert says in said
