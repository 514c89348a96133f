from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker import Pipeline
from stoker.engine.plan import make_plan
from stoker.errors import PlanError
from stoker.testing import apply, check_stage
from stoker_plugins import augment, collate, read
from tests.plugins.augment.pictures import frozen, noise

sides = st.integers(1, 30)


def test_contract() -> None:
    check_stage(augment.Pad(8))
    check_stage(augment.Pad(padding=2, mode="edge"))


@given(sides, sides, sides, sides, st.sampled_from(["constant", "edge", "reflect"]))
def test_small_pictures_are_padded_evenly_and_large_ones_left(
    height: int, width: int, high: int, wide: int, mode: Any
) -> None:
    image = noise(height, width)
    out = apply(augment.Pad((high, wide), mode=mode), {"image": frozen(image)})["image"]
    assert out.shape == (max(height, high), max(width, wide), 3)
    top, left = (out.shape[0] - height) // 2, (out.shape[1] - width) // 2
    assert np.array_equal(out[top : top + height, left : left + width], image)
    assert out.flags.c_contiguous
    if mode == "constant":
        assert int(out.sum()) == int(image.sum())
    elif mode == "edge":
        assert np.array_equal(out[0, left : left + width], image[0])


def test_a_value_goes_by_channel() -> None:
    out = apply(augment.Pad(4, value=(1, 2, 3)), {"image": noise(2, 2)})["image"]
    assert out[0, 0].tolist() == [1, 2, 3]
    one = apply(augment.Pad(4, value=9), {"image": noise(2, 2)})["image"]
    assert one[0, 0].tolist() == [9, 9, 9]
    fine = apply(augment.Pad(4, value=0.5), {"image": np.ones((2, 2, 1), np.float32)})["image"]
    assert float(fine.sum()) == 4 + 12 * 0.5


@given(sides, sides, st.integers(0, 20), st.integers(0, 40))
def test_padding_goes_on_every_side_and_what_then_lacks_evenly(
    height: int, width: int, padding: int, size: int
) -> None:
    image = np.ones((height, width, 2), np.uint16)
    stage = augment.Pad(size or None, padding=padding, value=7)
    out = apply(stage, {"image": frozen(image)})["image"]
    assert out.shape == (*(max(side + 2 * padding, size) for side in (height, width)), 2)
    assert out.dtype == np.uint16
    own = (out == 1).all(axis=2)
    assert (out[~own] == 7).all()
    rows, columns = own.any(axis=1).nonzero()[0], own.any(axis=0).nonzero()[0]
    assert (len(rows), len(columns), int(own.sum())) == (height, width, height * width)
    assert (out.shape[0] - height) // 2 == rows[0]
    assert (out.shape[1] - width) // 2 == columns[0]


@pytest.mark.parametrize("mode", ["edge", "reflect"])
def test_modes_are_numpys(mode: Any) -> None:
    image = noise(5, 4)
    out = apply(augment.Pad(padding=3, mode=mode), {"image": frozen(image)})["image"]
    assert np.array_equal(out, np.pad(image, ((3, 3), (3, 3), (0, 0)), mode=mode))


def test_a_picture_that_is_large_enough_is_handed_on_dense() -> None:
    image = noise(8, 8)
    assert apply(augment.Pad(8), {"image": image})["image"] is image
    turned = apply(augment.Pad(8), {"image": image[:, ::-1]})["image"]
    assert turned.flags.c_contiguous
    assert np.array_equal(turned, image[:, ::-1])


@pytest.mark.parametrize(
    ("value", "channels", "allowed"),
    [
        (256, 3, "whole numbers from 0 to 255"),
        (-1, 3, "whole numbers from 0 to 255"),
        (0.5, 3, "whole numbers from 0 to 255"),
        ((1, 2, 3), 1, "one number, or 1 for the channels"),
        ((1, 2, 3), 4, "one number, or 4 for the channels"),
    ],
)
def test_a_value_that_the_picture_cannot_hold_is_named(
    value: Any, channels: int, allowed: str
) -> None:
    image = noise(9, 9, channels)
    for stage in (
        augment.Pad(16, value=value),
        augment.RandomCrop(16, value=value),
        augment.RandomErasing(p=1.0, value=value),
    ):
        with pytest.raises(ValueError, match=allowed) as caught:
            apply(stage, {"image": image})
        words = f"{stage.name} was given value={value} for a picture of shape (9, 9, {channels})"
        assert str(caught.value).startswith(words)


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        (augment.Pad(8, mode="edge", value=3), 'has no meaning with mode="edge"'),
        (augment.RandomCrop(8, mode="reflect", value=1), 'has no meaning with mode="reflect"'),
        (augment.Pad(), "size=None and padding=0 pad nothing"),
        (augment.Pad((4, 0)), "allowed is"),
    ],
)
def test_parameters_without_meaning_are_refused(stage: Any, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        make_plan(Pipeline("p", read.Synthetic(4), stage, collate.Stack(2)))
