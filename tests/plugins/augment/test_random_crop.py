from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from stoker.region import Request, take_part
from stoker.rng import Rng
from stoker.testing import apply, check_stage
from stoker_plugins import augment, decode
from tests.plugins.augment.pictures import frozen, noise

sides = st.integers(1, 30)


def test_contract() -> None:
    check_stage(augment.RandomCrop(8, padding=2))


@given(sides, sides, st.integers(1, 20), st.integers(0, 4), st.integers(0, 50))
def test_a_crop_is_a_piece_of_the_padded_picture(
    height: int, width: int, size: int, padding: int, position: int
) -> None:
    image = noise(height, width, 1)
    stage = augment.RandomCrop(size, padding=padding, mode="edge")
    out = apply(stage, {"image": frozen(image)}, position=position)["image"]
    assert out.shape == (size, size, 1)
    assert out.flags.c_contiguous
    around = [padding + max(size - side - 2 * padding, 0) for side in (height, width)]
    border = ((around[0], around[0]), (around[1], around[1]), (0, 0))
    whole = np.pad(image, border, mode="edge")
    pieces = np.lib.stride_tricks.sliding_window_view(whole, (size, size, 1))
    assert (pieces.reshape(-1, size * size) == out.reshape(-1)).all(axis=1).any()


def test_every_place_is_drawn() -> None:
    image = np.arange(36, dtype=np.uint8).reshape(6, 6, 1)
    crop = augment.RandomCrop(4)
    firsts = {apply(crop, {"image": image}, position=n)["image"][0, 0, 0] for n in range(300)}
    assert firsts == {6 * row + column for row in range(3) for column in range(3)}


def test_what_is_too_small_lies_whole_at_every_place() -> None:
    image = noise(5, 4)
    places = set()
    for position in range(300):
        out = apply(augment.RandomCrop(6, value=255), {"image": image}, position=position)["image"]
        found = [
            (top, left)
            for top in range(2)
            for left in range(3)
            if np.array_equal(out[top : top + 5, left : left + 4], image)
        ]
        assert len(found) == 1
        assert int((out == 255).all(axis=2).sum()) == 36 - 20
        places |= set(found)
    assert len(places) == 6


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


@pytest.mark.parametrize("size", [(70, 90), (16, 40), (12, 90), (9, 9)])
@pytest.mark.parametrize("crop", [augment.RandomCrop(16), augment.RandomCrop((8, 12), padding=2)])
def test_a_decoder_makes_only_what_is_cut(crop: augment.RandomCrop, size: tuple[int, int]) -> None:
    file = io.BytesIO()
    Image.fromarray(noise(*size)).save(file, "PNG")
    asked = decode.Image(request=Request(crop, crop.name, "image"))
    high, wide = (crop.size, crop.size) if isinstance(crop.size, int) else crop.size
    places = set()
    for position in range(12):
        whole = apply(decode.Image(), {"png": file.getvalue()}, position=position)
        part = apply(asked, {"png": file.getvalue()}, position=position)
        less = crop.padding == 0 and size[0] >= high and size[1] >= wide
        assert part["image"].shape == ((high, wide, 3) if less else (*size, 3))
        assert (take_part(dict(part), "image") is not None) == less
        wanted = apply(crop, whole, position=position)["image"]
        assert np.array_equal(apply(crop, part, position=position)["image"], wanted)
        places.add(wanted.tobytes())
    assert len(places) > 3
