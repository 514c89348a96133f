import subprocess
import sys
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy
import pytest
import torch
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import IterableDataset, TensorDataset

from stoker.plugins import host
from stoker.stages import Worker
from stoker.testing import check_stage, order, read_all
from stoker_plugins.read import Dataset
from tests.plugins.read.helpers import problems


class Point(NamedTuple):
    x: int
    y: int


class Streaming(IterableDataset[int]):
    def __iter__(self) -> Any:
        return iter(range(3))


class NoLength(TorchDataset[int]):
    def __getitem__(self, index: int) -> int:
        return index


class BadLength:
    def __getitem__(self, index: int) -> int:
        return index

    def __len__(self) -> int:
        raise RuntimeError("not downloaded")


def only(dataset: Any, **given: Any) -> dict[str, Any]:
    """Return the fields of the first sample."""
    sample = next(read_all(Dataset(dataset, **given)))
    return {name: value for name, value in sample.items() if not name.startswith("__")}


def test_contract() -> None:
    check_stage(Dataset(range(5), shuffle=True))
    check_stage(Dataset([(1, 2)], fields=("a", "b")))
    assert host().stage_class("read.dataset") is Dataset


def test_key_and_url() -> None:
    samples = list(read_all(Dataset(range(10, 13))))
    assert samples[2] == {"__key__": "2", "__url__": "range", "data": 12}
    assert tuple(Dataset(range(3)).origin(2)) == ("2", "range", None)


def test_items_become_fields() -> None:
    assert only(["text"]) == {"data": "text"}
    assert only([[1, 2]]) == {"data": [1, 2]}
    assert only([(1, 2)]) == {"data": 1, "target": 2}
    assert only([(1, 2, 3)]) == {"0": 1, "1": 2, "2": 3}
    assert only([{"a": 1, "b": 2}]) == {"a": 1, "b": 2}
    assert only([OrderedDict(a=1)]) == {"a": 1}
    assert only([Point(1, 2)]) == {"x": 1, "y": 2}


def test_fields_name_the_parts() -> None:
    assert only([(1, 2)], fields=("image", "label")) == {"image": 1, "label": 2}
    assert only([[1, 2]], fields=("image", "label")) == {"image": 1, "label": 2}
    assert only([Point(1, 2)], fields=("a", "b")) == {"a": 1, "b": 2}
    assert only([7], fields=("number",)) == {"number": 7}


@pytest.mark.parametrize(
    ("item", "fields", "says"),
    [
        ((1, 2, 3), ("a", "b"), "item 0 has 3 parts, but fields=.* names 2"),
        ({"a": 1}, ("b",), "items are of type dict with names of their own"),
        (7, ("a", "b"), "items are of type int, which is not split"),
    ],
)
def test_fields_that_do_not_fit(item: Any, fields: tuple[str, ...], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        only([item], fields=fields)


def test_types_may_be_mixed() -> None:
    samples = list(read_all(Dataset([1, (2, 3), {"a": 4}, (5, 6, 7), None])))
    assert [set(sample) - {"__key__", "__url__"} for sample in samples] == [
        {"data"},
        {"data", "target"},
        {"a"},
        {"0", "1", "2"},
        {"data"},
    ]


def test_a_dict_keeps_its_own_key_and_is_not_changed() -> None:
    item = {"__key__": "mine", "a": 1}
    sample = next(read_all(Dataset([item])))
    assert sample == {"__key__": "mine", "__url__": "list", "a": 1}
    sample["b"] = 2
    assert item == {"__key__": "mine", "a": 1}


def test_torch_and_numpy() -> None:
    samples = list(read_all(Dataset(TensorDataset(torch.arange(3), torch.arange(3) * 2))))
    assert [(int(sample["data"]), int(sample["target"])) for sample in samples] == [
        (0, 0),
        (1, 2),
        (2, 4),
    ]
    assert only(numpy.arange(6).reshape(2, 3))["data"].tolist() == [0, 1, 2]


def test_shuffle_asks_for_plain_integers() -> None:
    asked: list[Any] = []

    class Spy:
        def __len__(self) -> int:
            return 20

        def __getitem__(self, index: Any) -> Any:
            asked.append(index)
            return index

    source = Dataset(Spy(), shuffle=True)
    assert order(source) != order(source, epoch=1)
    list(read_all(source))
    assert sorted(asked) == list(range(20))
    assert asked == order(source)
    assert {type(index) for index in asked} == {int}


@pytest.mark.parametrize(
    ("dataset", "says"),
    [
        (Streaming(), "can only be iterated; use read.DatasetStream"),
        ((number for number in range(3)), "can only be iterated; use read.DatasetStream"),
        ({1, 2}, "can only be iterated; use read.DatasetStream"),
        ({"train": [1]}, "is a mapping"),
        ("imagenet", "is text"),
        (TensorDataset, "is the class TensorDataset; make one"),
        (3, "has no __getitem__"),
        (None, "has no __getitem__"),
        (NoLength(), "has no length (TypeError"),
        (BadLength(), "has no length (RuntimeError: not downloaded); define __len__"),
        ([], "is empty"),
    ],
)
def test_what_is_no_dataset_is_said_without_reading_an_item(dataset: Any, says: str) -> None:
    (said,) = problems(Dataset(dataset))
    assert said.startswith("dataset, of type ")
    assert says in said


def test_field_names_are_checked() -> None:
    assert problems(Dataset([1], fields=()))
    assert problems(Dataset([1], fields=("a", "a")))
    assert problems(Dataset([1], fields=("a", "b"))) == []


def test_torch_is_not_imported_to_find_out() -> None:
    program = (
        "import sys; from stoker_plugins.read import Dataset;"
        "from stoker.stages import Surroundings, Worker; source = Dataset(range(3));"
        "assert list(source.check(Surroundings((source,), 0))) == [];"
        "assert source.read(1)['data'] == 1; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_reading_does_nothing_but_read_once_types_are_known() -> None:
    with Dataset(range(10)).open(Worker()) as read:
        read(0)
        calls: list[str] = []
        sys.setprofile(lambda frame, event, arg: calls.append(event) if "call" in event else None)
        try:
            read(1)
        finally:
            sys.setprofile(None)
    assert calls.count("call") == 2  # read, and what makes samples of this type
