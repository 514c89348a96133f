"""Counting and cutting batches."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from stoker.errors import RunError
from stoker.train.split import batch_length, split


class Pair(NamedTuple):
    x: torch.Tensor
    y: list[str]


@dataclass(frozen=True)
class Record:
    x: torch.Tensor
    note: str = "note"


class Opaque:
    def __init__(self, held: Any) -> None:
        self.held = held


@pytest.mark.parametrize(
    "batch",
    [
        torch.zeros(3, 2),
        numpy.zeros((3, 2)),
        ["a", "b", "c"],
        {"scale": torch.tensor(2.0), "text": "abcde", "x": torch.zeros(3, 7)},
        (torch.zeros(3), torch.zeros(3, 9)),
        Pair(torch.zeros(3), ["a", "b", "c"]),
        Record(torch.zeros(3)),
        # A packed tensor has more entries than the batch has samples: the keys know.
        {"packed": torch.zeros(50), "__key__": ["a", "b", "c"]},
    ],
)
def test_batch_length(batch: Any) -> None:
    assert batch_length(batch) == 3


def test_batch_length_of_what_shows_none_is_one() -> None:
    assert batch_length(Opaque(1)) == 1
    assert batch_length({"text": "abc", "n": 4}) == 1


@given(length=st.integers(0, 20), size=st.integers(1, 25))
def test_split_gives_every_sample_once_in_order(length: int, size: int) -> None:
    batch = {"x": torch.arange(length), "keys": [str(i) for i in range(length)], "scale": 0.5}
    pieces = list(split(batch, size))
    assert [int(x) for piece in pieces for x in piece["x"]] == list(range(length))
    assert [key for piece in pieces for key in piece["keys"]] == batch["keys"]
    assert all(batch_length(piece) == size for piece in pieces[:-1])
    assert all(piece["scale"] == 0.5 for piece in pieces)


def test_split_keeps_types_at_every_level() -> None:
    record = Record(torch.arange(4))
    batch = OrderedDict(pair=Pair(torch.arange(4), list("abcd")), plain=(record, 7))
    first, second = split(batch, 2)
    assert type(first) is OrderedDict
    assert type(first["pair"]) is Pair
    assert first["pair"].y == ["a", "b"]
    assert type(first["plain"]) is tuple
    assert second["plain"][0].x.tolist() == [2, 3]
    assert second["plain"][0].note == "note"
    assert batch["pair"].x.tolist() == [0, 1, 2, 3], "the batch itself stays whole"


def test_split_of_a_mapping_that_cannot_be_changed_gives_dicts() -> None:
    pieces = list(split(MappingProxyType({"x": torch.arange(3)}), 2))
    assert [piece["x"].tolist() for piece in pieces] == [[0, 1], [2]]


def test_pieces_are_views() -> None:
    x = torch.zeros(4, 3).contiguous()
    next(iter(split({"x": x}, 2)))["x"].add_(1)
    assert x.tolist() == [[1.0] * 3] * 2 + [[0.0] * 3] * 2


@pytest.mark.parametrize("size", [None, 4, 9])
def test_a_batch_that_needs_no_split_is_handed_on_as_it_is(size: int | None) -> None:
    batch = {"x": torch.zeros(4), "odd": torch.zeros(7), "thing": Opaque(torch.zeros(2))}
    assert list(split(batch, size)) == [batch]


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        ({"weights": torch.zeros(7)}, r"batch\['odd'\]\['weights'\] has 7 entries"),
        ([1, 2, 3], r"batch\['odd'\] has 3 entries"),
        (Opaque(torch.zeros(2)), r"batch\['odd'\] is a Opaque"),
    ],
)
def test_what_cannot_be_cut_along_is_refused_by_its_place(odd: Any, message: str) -> None:
    with pytest.raises(RunError, match=message):
        list(split({"x": torch.zeros(4), "odd": odd}, 2))


def test_an_object_without_tensors_is_in_every_piece() -> None:
    thing = Opaque("text")
    assert all(piece["thing"] is thing for piece in split({"x": [1, 2], "thing": thing}, 1))
