from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from stoker import Pipeline, Quarantine
from stoker.errors import RunError, UsageError
from stoker.plugins import host
from stoker.testing import check_stage, order, read_all
from stoker_plugins import collate
from stoker_plugins.read import Dataset, Files, Mix, Synthetic, WebDataset
from tests.plugins.read.helpers import pairs, problems, run, write_tar

A, B = Synthetic(60, shuffle=True), Dataset(range(20), shuffle=True)


def counts(source: Mix, **when: int) -> Counter[int]:
    return Counter(number for number, _ in order(source, **when))


def test_contract() -> None:
    check_stage(Mix([A, B], weights=(3, 1), names=("a", "b")))
    assert host().stage_class("read.mix") is Mix


def test_without_weights_every_sample_comes_once() -> None:
    drawn = order(Mix([A, B]))
    assert Counter(drawn) == dict.fromkeys(
        [*((0, address) for address in range(60)), *((1, address) for address in range(20))], 1
    )


@pytest.mark.parametrize(
    ("weights", "stop", "more", "expected"),
    [
        ((1, 1), "first", {}, {0: 20, 1: 20}),
        ((1, 1), "longest", {}, {0: 60, 1: 60}),
        ((3, 1), "first", {}, {0: 60, 1: 20}),
        ((0.6, 0.4), "first", {}, {0: 30, 1: 20}),
        ((0.7, 0.3), "first", {}, {0: 46, 1: 20}),
        ((0.7, 0.3), "longest", {}, {0: 60, 1: 26}),
        ((1, 1), "repeat", {}, {0: 40, 1: 40}),
        ((9, 1), "repeat", {"samples_per_epoch": 1000}, {0: 900, 1: 100}),
    ],
)
def test_shares_are_exact_and_stop_says_how_many(
    weights: Any, stop: Any, more: dict[str, Any], expected: dict[int, int]
) -> None:
    source = Mix([A, B], weights=weights, stop=stop, **more)
    assert problems(source) == []
    for epoch in range(2):
        assert counts(source, epoch=epoch) == expected


def test_first_repeats_nothing_and_longest_leaves_nothing_out() -> None:
    for weights in ((1, 7), (5, 2), (0.1, 0.7)):
        first = order(Mix([A, B], weights=weights))
        assert len(set(first)) == len(first)
        assert len(set(order(Mix([A, B], weights=weights, stop="longest")))) == 80


def test_shares_are_spread_evenly() -> None:
    numbers = [number for number, _ in order(Mix([A, B]))]
    for t in range(1, 81):
        assert abs(numbers[:t].count(1) - t / 4) < 1 + 2 / 4


def test_each_keeps_an_order_of_its_own_and_begins_another_when_used_up() -> None:
    drawn = order(Mix([A, B], weights=(1, 1), stop="longest"))
    of_b = [address for number, address in drawn if number == 1]
    turns = [of_b[start : start + 20] for start in (0, 20, 40)]
    assert all(sorted(turn) == list(range(20)) for turn in turns)
    assert len({tuple(turn) for turn in turns}) == 3
    still = order(Mix([A, Dataset(range(20))], weights=(1, 1), stop="longest"))
    assert [address for number, address in still if number == 1] == [*range(20)] * 3


def test_equal_sources_have_different_orders() -> None:
    drawn = order(Mix([B, B]))
    assert [a for n, a in drawn if n == 0] != [a for n, a in drawn if n == 1]


def test_keys_are_led_by_names_and_a_tag_is_the_number() -> None:
    samples = list(read_all(Mix([Dataset("ab"), Dataset("c")], names=("x", "y"), tag="source")))  # type: ignore[arg-type]
    found = sorted((sample["__key__"], sample["source"], sample["data"]) for sample in samples)
    assert found == [("x/0", 0, "a"), ("x/1", 0, "b"), ("y/0", 1, "c")]
    assert "source" not in next(read_all(Mix([B])))
    assert next(read_all(Mix([Dataset([7])])))["__key__"] == "0/0"


def test_what_a_source_gives_is_not_changed() -> None:
    item = {"__key__": "mine", "a": 1, "b": 2}

    class Own(Dataset):
        def read(self, address: Any) -> Any:
            return item

        def open(self, worker: Any) -> Any:
            from contextlib import nullcontext

            return nullcontext(self.read)

    (sample,) = read_all(Mix([Own([1])], fields=("a",), tag="t"))
    assert sample == {"__key__": "0/mine", "a": 1, "t": 0}
    assert item == {"__key__": "mine", "a": 1, "b": 2}


def test_S3_B05_folders_and_shards_of_equal_names_stay_apart(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder / "cat").mkdir(parents=True)
        (tmp_path / folder / "cat" / "001.jpg").write_bytes(folder.encode())
        write_tar(tmp_path / folder / "train-000.tar", pairs(2))
    files = Mix([Files(tmp_path / folder) for folder in ("one", "two")], names=("one", "two"))
    found = {sample["__key__"]: sample["jpg"] for sample in run(files).samples}
    assert found == {"one/cat/001": b"one", "two/cat/001": b"two"}
    shards = Mix([WebDataset(tmp_path / folder / "train-000.tar") for folder in ("one", "two")])
    assert sorted(run(shards).keys) == ["0/00000", "0/00001", "1/00000", "1/00001"]


def test_a_failure_names_the_sources_sample(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "001.jpg").write_bytes(b"x")
    source = Mix([Files(tmp_path), Dataset([1, 2])], names=("photos", "numbers"))
    gone = (tmp_path / "cat" / "001.jpg").unlink
    result = run(source, Quarantine(1), between=gone)
    assert result.keys == ["numbers/0", "numbers/1"]
    assert result.records[0]["key"] == "photos/cat/001"


def test_fields_are_all_there_and_no_others() -> None:
    sources = [Dataset([(1, 2, 3)], fields=("a", "b", "c")), Dataset([(4, 5)], fields=("a", "b"))]
    samples = list(read_all(Mix(sources, fields=("b", "a"))))
    assert {frozenset(sample) for sample in samples} == {
        frozenset(("__key__", "__url__", "a", "b"))
    }
    mixed = Mix(sources, fields=("a", "c"), names=("x", "y"))
    says = r"sample 'y/0' of source 'y' \(read.dataset\) lacks c; its fields: a, b; read them"
    with pytest.raises(RunError, match=says):
        run(mixed)


def test_different_fields_in_one_batch_name_the_source() -> None:
    sources = [Dataset([(1.0,)], fields=("a",)), Dataset([(2.0,)], fields=("b",))]
    made = Pipeline("x", Mix(sources, names=("photos", "drawings")), collate.Stack(2))
    with pytest.raises(RunError, match=r"(photos|drawings)/0"), made as loader:
        list(loader)


def test_a_tag_does_not_hide_a_field() -> None:
    with pytest.raises(RunError, match="tag='data': sample '0/0' has such a field already"):
        run(Mix([Dataset([1])], tag="data"))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"sources": []}, "sources is empty"),
        ({"weights": (1,)}, "weights has 1 entries for 2 sources"),
        ({"weights": (1, 0)}, "allowed are finite numbers above 0"),
        ({"weights": (1, float("inf"))}, "allowed are finite numbers above 0"),
        ({"names": ("a",)}, "names has 1 entries for 2 sources"),
        ({"names": ("a", "a")}, "allowed are different names"),
        ({"names": ("a", "")}, "allowed are different names"),
        ({"names": ("a", "a/b")}, "a name may hold no '/'"),
        ({"samples_per_epoch": 5}, "needs stop='repeat', not 'first'"),
    ],
)
def test_what_is_wrong_is_one_line(given: dict[str, Any], says: str) -> None:
    source = Mix(**{"sources": [A, B], **given})
    with pytest.raises(UsageError, match=says) as error:
        order(source)
    assert problems(source) == [str(error.value)]


def test_a_source_without_samples_is_named() -> None:
    with pytest.raises(UsageError, match="source 'b' has no samples"):
        order(Mix([A, Dataset([])], names=("a", "b")))


def test_an_epoch_that_would_never_end_is_refused_at_once() -> None:
    source = Mix([A, B], weights=(1, 1e-12), stop="longest")
    (said,) = problems(source)
    assert "stop='longest' takes an epoch of 20,000,000,000,020 positions" in said
