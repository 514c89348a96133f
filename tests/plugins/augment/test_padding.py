from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker import Pipeline
from stoker.errors import PlanError
from stoker.rng import Rng
from stoker.testing import apply, check_stage
from stoker_plugins import augment
from tests.plugins.augment.pictures import frozen, noise

sides = st.integers(1, 30)


def test_contracts() -> None:
    check_stage(augment.Pad(8))
    check_stage(augment.RandomCrop(8, padding=2))


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


@given(sides, sides, st.integers(1, 20), st.integers(0, 4), st.integers(0, 50))
def test_a_crop_is_a_piece_of_the_padded_picture(
    height: int, width: int, size: int, padding: int, position: int
) -> None:
    image = noise(height, width, 1)
    stage = augment.RandomCrop(size, padding=padding, mode="edge")
    out = apply(stage, {"image": frozen(image)}, position=position)["image"]
    assert out.shape == (size, size, 1)
    assert out.flags.c_contiguous
    assert set(out.ravel().tolist()) <= set(image.ravel().tolist())


def test_every_place_is_drawn() -> None:
    image = np.arange(36, dtype=np.uint8).reshape(6, 6, 1)
    crop = augment.RandomCrop(4)
    firsts = {apply(crop, {"image": image}, position=n)["image"][0, 0, 0] for n in range(300)}
    assert firsts == {6 * row + column for row in range(3) for column in range(3)}


def test_what_is_too_small_may_be_an_error() -> None:
    with pytest.raises(ValueError, match=r"8 x 8 pixels .* of a picture of 4 x 9; set pad_if_need"):
        apply(augment.RandomCrop(8, pad_if_needed=False), {"image": noise(4, 9)})


@pytest.mark.parametrize(("height", "width"), [(40, 60), (8, 60), (8, 8)])
def test_the_region_is_what_is_cut_and_none_where_something_is_put_on(
    height: int, width: int
) -> None:
    stage = augment.RandomCrop(16)
    region = stage.region("image", height, width, Rng(0, stage.name).move(0, 3))
    image = noise(height, width)
    out = apply(stage, {"image": image}, position=3)["image"]
    if min(height, width) < 16:
        assert region is None
        return
    assert region is not None
    top, left, bottom, right = region.outline()
    assert np.array_equal(out, image[top:bottom, left:right])
    assert augment.RandomCrop(16, padding=1).region("image", 40, 60, Rng(0, "x")) is None


@pytest.mark.parametrize(
    "stage", [augment.Pad(8, mode="edge", value=3), augment.RandomCrop(8, mode="reflect", value=1)]
)
def test_a_value_without_meaning_is_refused(stage: Any) -> None:
    from stoker.engine.plan import make_plan
    from stoker_plugins import collate, read

    with pytest.raises(PlanError, match='has no meaning with mode="'):
        make_plan(Pipeline("p", read.Synthetic(4), stage, collate.Stack(2)))
