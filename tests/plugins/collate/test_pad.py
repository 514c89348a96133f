from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from stoker.errors import PlanError
from stoker.testing import assemble, check_stage
from stoker_plugins import collate


def samples(*values: Any, field: str = "x", **more: Any) -> list[dict[str, Any]]:
    return [{"__key__": f"k{i}", field: value, **more} for i, value in enumerate(values)]


def test_contract() -> None:
    check_stage(collate.Pad(4, "x"))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(1, 4), st.integers(-3, 3))
def test_each_row_comes_back_and_the_rest_is_the_value(
    lengths: list[int], unit: int, value: int
) -> None:
    rows = [np.arange(n, dtype=np.int32) + 10 for n in lengths]
    batch = assemble(collate.Pad(8, "x", multiple_of=unit, value=value), samples(*rows, y=1))
    longest = -(-max(lengths) // unit) * unit
    assert batch["x"].shape == (len(rows), longest)
    assert batch["x"].dtype == torch.int32
    assert batch["x_length"].tolist() == lengths
    assert batch["y"].tolist() == [1] * len(rows)
    for got, row in zip(batch["x"], rows, strict=True):
        assert got[: len(row)].tolist() == row.tolist()
        assert set(got[len(row) :].tolist()) <= {value}


def test_B13_pictures_of_two_sizes_and_box_lists_of_one_and_two() -> None:
    """(3, 8, 8) next to (3, 8, 9), as pictures (H, W, C); boxes (1, 4) next to (2, 4)."""
    made = [
        {"__key__": "a", "image": np.ones((8, 8, 3), np.uint8), "boxes": np.ones((1, 4))},
        {"__key__": "b", "image": np.ones((8, 9, 3), np.uint8), "boxes": np.ones((2, 4))},
    ]
    with pytest.raises(ValueError, match=re.escape("(8, 8, 3) in 'a' but (8, 9, 3) in 'b'")) as e:
        assemble(collate.Stack(2), made)
    for policy in ("collate.Pad(", "collate.Concat(", "collate.List("):
        assert policy in str(e.value)
    with pytest.raises(ValueError, match=r"'boxes' has shape \(1, 4\) in 'a' but \(2, 4\) in 'b'"):
        assemble(collate.Pad(2, "image", dims=2), made)
    stage = collate.Pad(2, ("boxes",))
    with pytest.raises(ValueError, match="field 'image' has shape"):
        assemble(stage, made)
    only = [{k: v for k, v in sample.items() if k != "image"} for sample in made]
    assert assemble(stage, only)["boxes_length"].tolist() == [1, 2]
    pictures = [{k: v for k, v in sample.items() if k != "boxes"} for sample in made]
    batch = assemble(collate.Pad(2, "image", dims=2, value=7), pictures)
    assert batch["image"].shape == (2, 8, 9, 3)
    assert batch["image_length"].tolist() == [[8, 8], [8, 9]]
    assert batch["image"][0, :, 8].unique().tolist() == [7]


def test_B13_one_grey_picture_among_colour() -> None:
    made = samples(np.ones((8, 8, 3), np.uint8), np.ones((8, 8, 1), np.uint8), field="image")
    for stage in (collate.Stack(2), collate.Pad(2, "image", dims=2)):
        with pytest.raises(
            ValueError, match=r"'image' has shape \(8, 8, 3\) in 'k0' but \(8, 8, 1"
        ):
            assemble(stage, made)
    flat = samples(np.ones((8, 8, 3), np.uint8), np.ones((8, 8), np.uint8), field="image")
    with pytest.raises(ValueError, match="as many dimensions are needed in all"):
        assemble(collate.Pad(2, "image", dims=2), flat)


def test_lists_of_numbers_are_arrays_and_values_go_by_field() -> None:
    made = [
        {"__key__": "a", "ids": [1, 2, 3], "weight": [0.5]},
        {"__key__": "b", "ids": [4], "weight": [1.0, 2]},
    ]
    stage = collate.Pad(2, ("ids", "weight"), value={"ids": -100})
    batch = assemble(stage, made)
    assert batch["ids"].tolist() == [[1, 2, 3], [4, -100, -100]]
    assert batch["ids"].dtype == torch.int64
    assert batch["weight"].tolist() == [[0.5, 0.0], [1.0, 2.0]]
    assert batch["weight_length"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ([np.zeros(2), "text"], TypeError, "field 'x' holds 'text' in 'k1'; allowed is an array"),
        ([np.zeros(2), np.zeros(2, int)], TypeError, "dtype torch.float64 in 'k0' but torch.int64"),
        ([np.float32(1), np.float32(2)], TypeError, "allowed is an array"),
        ([torch.tensor(1)], ValueError, "fewer than the dims=1"),
    ],
)
def test_what_cannot_be_padded_names_field_keys_and_shapes(
    values: list[Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        assemble(collate.Pad(4, "x"), samples(*values))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("int64", 0.5), ("uint8", -1), ("uint8", 300), ("bool", 3), ("int64", float("nan"))],
)
def test_a_value_that_the_dtype_cannot_hold_is_refused(dtype: str, value: float) -> None:
    made = samples(np.zeros(2, dtype), np.zeros(3, dtype))
    with pytest.raises(ValueError, match=f"of field 'x' is none that torch.{dtype} holds"):
        assemble(collate.Pad(4, "x", value=value), made)


@pytest.mark.parametrize("value", [0.1, -1e30, float("nan"), float("-inf")])
def test_floats_hold_any_value(value: float) -> None:
    made = samples(np.zeros(1, np.float32), np.zeros(2, np.float32))
    filled = assemble(collate.Pad(4, "x", value=value), made)["x"][0, 1]
    assert torch.equal(filled, torch.tensor(value)) or (filled.isnan() and value != value)
    half = samples(np.zeros(1, np.float16), np.zeros(2, np.float16))
    with pytest.raises(ValueError, match="none that torch.float16 holds"):
        assemble(collate.Pad(4, "x", value=1e6), half)


@pytest.mark.parametrize("ending", ["_length", "_offsets"])
def test_a_field_is_never_overwritten(ending: str) -> None:
    stage: Any = collate.Pad(2, "x") if ending == "_length" else collate.Concat(2, "x")
    made = samples(np.zeros(2), np.zeros(2), **{f"x{ending}": 9})
    with pytest.raises(ValueError, match=f"'x{ending}', which is made for 'x', is in the samples"):
        assemble(stage, made)


def test_lists_as_json_writes_them() -> None:
    batch = assemble(collate.Pad(4, "x"), samples([1, 2], [0.5], []))
    assert batch["x"].tolist() == [[1.0, 2.0], [0.5, 0.0], [0.0, 0.0]]
    boxes = samples([[1, 2, 3, 4]], [[1, 2, 3, 4], [5, 6, 7, 8]])
    assert assemble(collate.Pad(4, "x"), boxes)["x"].shape == (2, 2, 4)
    assert assemble(collate.Pad(4, "x"), samples([True], [False]))["x"].dtype == torch.bool
    for odd in ([2**63], [[1], [1, 2]], ["a"], [None], [True, "a"]):
        with pytest.raises(TypeError, match="allowed is an array, a tensor or a list of numbers"):
            assemble(collate.Pad(4, "x"), samples([1], odd))


def test_a_missing_field_lists_those_there() -> None:
    for stage in (collate.Pad(2, "ids"), collate.Concat(2, "ids")):
        with pytest.raises(KeyError, match="no field 'ids'; the sample has: x"):
            assemble(stage, samples(1, 2))


@pytest.mark.parametrize(
    ("stage", "problem"),
    [
        (collate.Pad(2), "name a field, or several"),
        (collate.Pad(2, ("x", "x")), "a field is named twice"),
        (collate.Pad(2, "x", value={"y": 1.0}), "'y' is none of the padded fields"),
        (collate.Concat(2), "name a field, or several"),
        (collate.Pad(2, "x", drop_last=True, merge_last=True), "either left out or merged"),
        (collate.Bucket("x", float("inf")), "allowed is a number above 0"),
        (collate.Bucket("x", 9.0, pad=("",)), "name a field, or several"),
        (collate.Bucket("x", 9.0, value={"typo": 1.0}), "'typo' is none of the padded fields"),
        (collate.Bucket("x", 0.0), "allowed is a number above 0"),
        (collate.Bucket("x", 9.0, edges=(3, 2)), "allowed are numbers above 0 that rise"),
    ],
)
def test_wrong_parameters_are_said_before_anything_starts(stage: Any, problem: str) -> None:
    from stoker import Pipeline
    from stoker.engine.plan import make_plan
    from tests.toys import Numbers

    with pytest.raises(PlanError, match=problem):
        make_plan(Pipeline("p", Numbers(4), stage))
