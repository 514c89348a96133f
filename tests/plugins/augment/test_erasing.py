from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stoker.testing import apply, check_stage
from stoker_plugins import augment
from tests.plugins.augment.pictures import frozen


def test_contract() -> None:
    check_stage(augment.RandomErasing(p=0.5))


def boxes(stage: Any, image: Any, count: int = 300) -> list[tuple[int, int] | None]:
    """Return (height, width) of what was painted over in each picture."""
    found: list[tuple[int, int] | None] = []
    for position in range(count):
        out = apply(stage, {"image": frozen(image)}, position=position)["image"]
        gone = (out != image).any(axis=2)
        rows, columns = gone.any(axis=1).nonzero()[0], gone.any(axis=0).nonzero()[0]
        if not len(rows):
            found.append(None)
            continue
        box = gone[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        assert box.all()  # one box, all of it
        found.append((box.shape[0], box.shape[1]))
    return found


def test_one_box_of_a_share_and_an_aspect_is_painted_over() -> None:
    image = np.full((64, 48, 3), 200, np.uint8)
    stage = augment.RandomErasing(p=1.0, scale=(0.1, 0.2), ratio=(0.5, 2.0))
    for box in boxes(stage, image):
        assert box is not None
        assert 0.08 < box[0] * box[1] / (64 * 48) < 0.22
        assert 0.45 < box[0] / box[1] < 2.2
    drawn = boxes(augment.RandomErasing(p=0.25), image)
    assert 45 < sum(box is not None for box in drawn) < 110


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_random_paint_and_paint_by_channel(dtype: Any) -> None:
    image = np.zeros((32, 32, 3), dtype)
    out = apply(augment.RandomErasing(p=1.0, value="random"), {"image": image})["image"]
    assert out.dtype == dtype
    assert len(np.unique(out)) > 20
    out = apply(augment.RandomErasing(p=1.0, value=(1, 2, 3)), {"image": image})["image"]
    assert {tuple(pixel) for pixel in out.reshape(-1, 3)} == {(0, 0, 0), (1, 2, 3)}


def test_a_box_that_never_fits_is_left_out() -> None:
    image = np.ones((1, 50, 3), np.uint8)
    stage = augment.RandomErasing(p=1.0)
    assert np.array_equal(apply(stage, {"image": image})["image"], image)
