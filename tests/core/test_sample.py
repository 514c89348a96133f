"""What flows: origins, fields, sizes and leaves of samples and batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from stoker.sample import Origin, fields_of, leaves, missing_field, nbytes, origin_of

SAMPLE = {"__key__": "a/0001", "__url__": "s.tar", "__offset__": 512, "jpg": b"xyz", "cls": 3}


def test_an_origin_is_what_the_sample_carries() -> None:
    assert origin_of(SAMPLE) == Origin("a/0001", "s.tar", 512)
    assert origin_of({"__key__": 7}) == Origin("7", None, None)
    assert origin_of({"__key__": 0, "__offset__": 0}) == Origin("0", None, 0)
    assert origin_of({}) == origin_of(None) == origin_of([1]) == origin_of("text") == Origin()


def test_fields_are_those_that_are_no_metadata() -> None:
    assert fields_of(SAMPLE) == ["jpg", "cls"]


def test_B01_a_missing_field_lists_those_that_are_there() -> None:
    error = missing_field("png", SAMPLE)
    assert error.args == ("no field 'png'; the sample has: cls, jpg",)
    assert missing_field("png", {"__key__": "a"}).args[0].endswith("the sample has: none")


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (b"abc", 3),
        (bytearray(5), 5),
        (memoryview(b"abcd"), 4),
        ("text", 4),
        (np.zeros((2, 3), np.float32), 24),
        (np.zeros(0), 0),
        (np.float64(1), 8),
        (torch.zeros(4, dtype=torch.int16), 8),
        (7, 64),
        (None, 64),
        (object(), 64),
        ([b"abc", "de"], 3 + 2 + 64),
        ({"a": b"abc", "b": (np.zeros(1),)}, 3 + 8 + 64 + 64),
        ({}, 64),
    ],
    ids=repr,
)
def test_size_counts_buffers_exactly_and_objects_by_a_constant(value: Any, size: int) -> None:
    assert nbytes(value) == size


def test_size_of_what_does_not_tell_is_that_of_an_object() -> None:
    indices, values = torch.tensor([[0]]), torch.tensor([1.0])
    sparse = torch.sparse_coo_tensor(indices, values, (3,), check_invariants=True)
    assert nbytes({"points": sparse}) == 64 + 64

    class Odd:
        nbytes = "many"

    assert nbytes(Odd()) == 64


def test_leaves_come_in_order() -> None:
    tree = {"a": [1, (2, "three")], "b": {"c": None}, "d": []}
    assert list(leaves(tree)) == [1, 2, "three", None]
    assert list(leaves("text")) == ["text"]
