from __future__ import annotations

import colorsys
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from stoker_plugins.augment.colour import (
    brighten,
    change_contrast,
    picture_from,
    planes_of,
    saturate,
    turn_hue,
)
from tests.plugins.augment.pictures import frozen, noise, smooth

FACTORS = (0.0, 0.4, 1.0, 1.3, 2.5)


def changed(image: Any, change: Any, amount: float) -> Any:
    """Return a picture with one change made."""
    planes = planes_of(frozen(image), 1 if image.shape[2] < 3 else 3)
    change(planes, amount, float(np.iinfo(image.dtype).max))
    return picture_from(planes, image)


def apart(one: Any, other: Any) -> int:
    """Return the largest difference of a value."""
    return int(np.abs(np.asarray(one, int) - np.asarray(other, int)).max())


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("image", [noise(30, 40), smooth(30, 40)], ids=["noise", "smooth"])
@pytest.mark.parametrize(
    ("change", "enhancer"),
    [
        (brighten, ImageEnhance.Brightness),
        (change_contrast, ImageEnhance.Contrast),
        (saturate, ImageEnhance.Color),
    ],
)
def test_equals_pillow_but_for_rounding(
    change: Any, enhancer: Any, image: Any, factor: float
) -> None:
    # Pillow cuts off what it does not round, and rounds its grey before it multiplies.
    tolerance = 1 + abs(1 - factor)
    wanted = enhancer(Image.fromarray(image)).enhance(factor)
    assert apart(changed(image, change, factor), wanted) <= tolerance


@pytest.mark.parametrize("factor", FACTORS)
def test_grey_pictures_equal_pillow_too(factor: float) -> None:
    grey = noise(20, 20, 1)
    for change, enhancer in (
        (brighten, ImageEnhance.Brightness),
        (change_contrast, ImageEnhance.Contrast),
    ):
        wanted = np.asarray(enhancer(Image.fromarray(grey[:, :, 0])).enhance(factor))
        assert apart(changed(grey, change, factor)[:, :, 0], wanted) <= 1 + abs(1 - factor)


@pytest.mark.parametrize("share", [-0.5, -0.3, -0.01, 0.0, 0.1, 1 / 3, 0.5])
def test_hue_is_turned_as_colorsys_turns_it(share: float) -> None:
    corners = np.array(
        [[r, g, b] for r in (0, 9, 255) for g in (0, 9, 255) for b in (0, 9, 255)], np.uint8
    )
    image = np.concatenate([corners[None].repeat(2, 0), smooth(2, 27), noise(8, 27)])
    out = changed(image, turn_hue, share)
    for before, after in zip(image.reshape(-1, 3), out.reshape(-1, 3), strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*(before / 255))
        wanted = np.array(colorsys.hsv_to_rgb((hue + share) % 1, saturation, value)) * 255
        assert np.abs(wanted - after).max() <= 0.51


@pytest.mark.parametrize("steps", [0, 16, 100, -64])
def test_hue_equals_pillows_within_the_rounding_of_its_eight_bits(steps: int) -> None:
    image = smooth(30, 40)
    hue, saturation, value = Image.fromarray(image).convert("HSV").split()
    turned = hue.point([(level + steps) % 256 for level in range(256)])
    wanted = Image.merge("HSV", (turned, saturation, value)).convert("RGB")
    # A step of hue is 6/256 of the chroma, one of saturation 1/255 of the value.
    assert apart(changed(image, turn_hue, steps / 256), wanted) <= 5


def test_greys_keep_their_colour_whatever_the_hue() -> None:
    image = np.arange(256, dtype=np.uint8).repeat(3).reshape(16, 16, 3)
    for change, amount in ((turn_hue, 0.37), (saturate, 1.8)):
        assert np.array_equal(changed(image, change, amount), image)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_planes_and_back_is_the_picture(channels: int, dtype: Any) -> None:
    image = noise(7, 9, channels).astype(dtype) * dtype(np.iinfo(dtype).max // 255)
    for view in (frozen(image), image[:, ::-1]):
        planes = planes_of(view, 1 if channels < 3 else 3)
        assert planes.dtype == np.float32
        assert not np.shares_memory(planes, image)
        out = picture_from(planes, view)
        assert np.array_equal(out, view)
        assert out.dtype == dtype
        assert out.flags.c_contiguous
