from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from stoker.testing import apply, check_stage
from stoker_plugins.augment.resample import Box, cut, resize
from stoker_plugins.augment.resize import Resize, resized_shape
from tests.plugins.augment.pictures import frozen, noise, smooth


def by_pillow(image, size):
    height, width = size
    return np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR))


@pytest.mark.parametrize("size", [(24, 31), (120, 200), (48, 64)])
def test_equals_pillow_but_for_rounding(size):
    image = smooth(96, 128)
    out = resize(image, Box(0, 0, 96, 128), size)
    assert out.shape == (*size, 3)
    assert np.abs(out.astype(int) - by_pillow(image, size)).max() <= 1


def test_only_the_box_is_seen():
    image = noise(40, 60)
    box = Box(5, 10, 20, 30)
    part = np.ascontiguousarray(image[5:25, 10:40])
    assert (resize(image, box, (7, 8)) == resize(part, Box(0, 0, 20, 30), (7, 8))).all()
    assert np.abs(resize(image, box, (7, 8)).astype(int) - by_pillow(part, (7, 8))).max() <= 1


def test_antialias_averages_and_without_it_pixels_are_skipped():
    stripes = np.zeros((64, 64, 3), np.uint8)
    stripes[::4] = 255
    whole = Box(0, 0, 64, 64)
    assert np.ptp(resize(stripes, whole, (16, 16))[4:12].astype(int)) < 40
    skipped = resize(stripes, whole, (16, 16), antialias=False)
    assert np.unique(skipped).tolist() == [0]  # between the stripes, always


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint16", "float16", "float32", "float64"])
def test_other_dtypes_are_kept(dtype):
    low, high = (0, 65535) if dtype == "uint16" else (-100, 100)
    ramp = np.rint(np.linspace(low, high, 64))
    image = np.broadcast_to(ramp.astype(dtype)[:, None, None], (64, 32, 1))
    out = resize(image, Box(0, 0, 64, 32), (16, 8))
    assert out.dtype == dtype
    expected = ramp.reshape(16, 4).mean(1)
    assert np.abs(out[1:-1, 3, 0] - expected[1:-1]).max() <= max(1.0, np.ptp(ramp) / 500)
    assert (np.diff(out[:, 0, 0].astype(float)) > 0).all()


def test_dtypes_without_values_between_are_refused():
    with pytest.raises(TypeError, match="dtype bool cannot be resized; allowed are float16"):
        resize(np.zeros((8, 8, 1), bool), Box(0, 0, 8, 8), (4, 4))


def test_an_unchanged_size_costs_nothing():
    image = noise(8, 8)
    assert resize(image, Box(0, 0, 8, 8), (8, 8)) is image
    assert (resize(image, Box(1, 2, 4, 4), (4, 4)) == image[1:5, 2:6]).all()


def test_cut_makes_views_dense():
    turned = noise(8, 8)[:, ::-1]
    out = cut(turned, Box(0, 0, 8, 8))
    assert out.flags.c_contiguous
    assert (out == turned).all()


@pytest.mark.parametrize(
    ("shape", "size", "expected"),
    [
        ((480, 640), 240, (240, 320)),
        ((640, 480), 240, (320, 240)),
        ((375, 500), 256, (256, 341)),  # 341.3: down, as torchvision
        ((10, 10), 3, (3, 3)),
        ((480, 640), (10, 20), (10, 20)),
        ((1, 1000), 5, (5, 5000)),
    ],
)
def test_resized_shape(shape, size, expected):
    assert resized_shape(*shape, size) == expected


def test_resize_stage():
    check_stage(Resize(8))
    image = smooth(60, 80)
    out = apply(Resize(30), {"image": frozen(image)})["image"]
    assert out.shape == (30, 40, 3)
    assert out.flags.c_contiguous
    assert np.abs(out.astype(int) - by_pillow(image, (30, 40))).max() <= 1


def test_resize_to_its_own_size_hands_the_picture_on():
    image = noise(30, 40)
    assert apply(Resize(30), {"image": image})["image"] is image
