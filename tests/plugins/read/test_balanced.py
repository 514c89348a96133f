from collections import Counter
from pathlib import Path
from typing import Any

import numpy
import pytest

from stoker.errors import UsageError
from stoker.plugins import host
from stoker.testing import check_stage, order, read_all
from stoker_plugins.read import Balanced, Dataset, Files, Repeated, Synthetic
from stoker_plugins.read.balanced import coded
from tests.plugins.read.helpers import problems

LABELS = [0] * 30 + [1] * 5 + [2] * 2


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, count in (("ant", 7), ("bee", 2), ("cow", 1)):
        (tmp_path / name).mkdir()
        for number in range(count):
            (tmp_path / name / f"{number}.jpg").write_bytes(b"x")
    return tmp_path


def test_contract() -> None:
    check_stage(Balanced(Synthetic(3), label=[1, 2, 2], class_weights={1: 1, 2: 2.5}))
    assert host().stage_class("read.balanced") is Balanced


@pytest.mark.parametrize("count", [37, 36, 3, 1, 100])
def test_classes_differ_by_one_at_most(count: int) -> None:
    source = Balanced(Synthetic(37), label=LABELS, samples_per_epoch=count)
    for epoch in range(3):
        drawn = Counter(LABELS[address] for address in order(source, epoch=epoch))
        assert sum(drawn.values()) == count
        assert max(drawn.values()) - min(drawn[label] for label in (0, 1, 2)) <= 1


def test_an_epoch_is_as_long_as_the_sources() -> None:
    assert len(order(Balanced(Synthetic(37), label=LABELS))) == 37


def test_within_a_class_all_come_before_any_comes_again() -> None:
    drawn = order(Balanced(Synthetic(37), label=LABELS, samples_per_epoch=36))
    of_class = [[address for address in drawn if LABELS[address] == label] for label in (0, 1, 2)]
    assert len(set(of_class[0])) == 12
    assert sorted(of_class[1][:5]) == sorted(of_class[1][5:10]) == list(range(30, 35))
    assert Counter(of_class[2]) == {35: 6, 36: 6}


def test_a_class_larger_than_its_share_gives_others_in_other_epochs() -> None:
    source = Balanced(Synthetic(37), label=LABELS)
    seen = {address for epoch in range(20) for address in order(source, epoch=epoch)}
    assert seen == set(range(37))


def test_every_batch_is_near_balance() -> None:
    drawn = order(Balanced(Synthetic(37), label=LABELS, samples_per_epoch=36))
    for start in range(0, 36, 3):
        assert {LABELS[address] for address in drawn[start : start + 3]} == {0, 1, 2}


def test_class_weights_are_kept_exactly() -> None:
    source = Balanced(
        Synthetic(37), label=LABELS, class_weights={0: 5, 1: 0, 2: 1}, samples_per_epoch=60
    )
    assert Counter(LABELS[address] for address in order(source)) == {0: 50, 2: 10}


def test_folders_are_classes(tree: Path) -> None:
    for source in (Files(tree), Files(tree, shuffle=True), Repeated(Files(tree), length="longer")):
        balanced = Balanced(source, samples_per_epoch=30)
        assert problems(balanced) == []
        found = Counter(sample["cls"] for sample in read_all(balanced))
        assert found == {0: 10, 1: 10, 2: 10}


@pytest.mark.parametrize("weights", [{0: 1, 1: 1, 2: 4}, {"ant": 1, "bee": 1, "cow": 4}])
def test_class_weights_of_folders_go_by_number_or_name(tree: Path, weights: Any) -> None:
    balanced = Balanced(Files(tree), class_weights=weights, samples_per_epoch=12)
    assert Counter(cls for cls, _ in order(balanced)) == {0: 2, 1: 2, 2: 8}


def test_labels_may_be_text_an_array_a_file_or_a_function(tmp_path: Path) -> None:
    numpy.save(tmp_path / "labels.npy", numpy.array(["b", "a", "a", "a"]))
    labels = ["b", "a", "a", "a"]
    ways = (labels, numpy.array(labels), tmp_path / "labels.npy", lambda address: labels[address])
    found = [order(Balanced(Synthetic(4), label=way)) for way in ways]
    assert all(one == found[0] for one in found)
    assert Counter(labels[address] for address in found[0]) == {"a": 2, "b": 2}


def test_labels_are_coded_in_order() -> None:
    for values in ([3, 1, 3, 2], numpy.array([3, 1, 3, 2])):
        labels, codes = coded(values)
        assert (labels, codes.tolist()) == ([1, 2, 3], [2, 0, 2, 1])
    labels, codes = coded(["b", 1, "b"])
    assert [labels[code] for code in codes] == ["b", 1, "b"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "label='folder': read.synthetic has no class folders.*give labels"),
        ({"label": [1, 2]}, "label has 2 values and the source 3 samples"),
        ({"label": [[1], [2], [3]]}, "a label must be a number or text"),
        ({"label": [1, 2, 3], "class_weights": {1: 1, 2: 1}}, "none for class 3"),
        ({"label": [1, 2, 3], "class_weights": {1: 1, 2: 1, 3: 1, 4: 1}}, "no class '4'"),
        ({"label": [1, 1, 1], "class_weights": {1: 0}}, "class_weights are all 0"),
    ],
)
def test_what_is_wrong_is_one_line(given: dict[str, Any], says: str) -> None:
    source = Balanced(Synthetic(3), **given)
    with pytest.raises(UsageError, match=says) as error:
        order(source)
    assert problems(source) == [str(error.value)]


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf"), "a"])
def test_weights_of_classes_are_finite_numbers_of_at_least_0(weight: Any) -> None:
    source = Balanced(Synthetic(2), label=[1, 2], class_weights={1: 1, 2: weight})
    with pytest.raises(UsageError, match="class_weights of class 2 is .*finite numbers"):
        order(source)


def test_listed_labels_need_an_order_that_stays() -> None:
    (said,) = problems(Balanced(Dataset(range(37), shuffle=True), label=LABELS))
    assert "leave its shuffle=False (read.balanced draws an order itself)" in said
