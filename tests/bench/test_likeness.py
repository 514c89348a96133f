from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

pytest.importorskip("simplejpeg")

from bench.likeness import EQUAL_DB, Likeness, compare, psnr, shift, targets


def photograph(seed: int, side: int = 256) -> NDArray[np.uint8]:
    """Return a picture with a photograph's spectrum: amplitudes that fall with frequency."""
    rng = np.random.default_rng(seed)
    radius = np.hypot(*np.meshgrid(np.fft.fftfreq(side), np.fft.fftfreq(side)))
    spectrum = np.fft.fft2(rng.normal(size=(side, side))) / np.maximum(radius, 1 / side)
    light = np.fft.ifft2(spectrum).real
    light = (light - light.min()) / (light.max() - light.min()) * 255
    return np.repeat(light.astype(np.uint8)[:, :, None], 3, axis=2)


def moved(picture: NDArray[np.uint8], down: float, right: float) -> NDArray[np.uint8]:
    """Return a picture moved by parts of a pixel, by the shift theorem."""
    fy, fx = np.meshgrid(
        np.fft.fftfreq(picture.shape[0]), np.fft.fftfreq(picture.shape[1]), indexing="ij"
    )
    turn = np.exp(-2j * np.pi * (fy * down + fx * right))[:, :, None]
    out = np.fft.ifft2(np.fft.fft2(picture, axes=(0, 1)) * turn, axes=(0, 1)).real
    return np.clip(np.rint(out), 0, 255).astype(np.uint8)


@pytest.mark.parametrize(
    ("down", "right"), [(0, 0), (0.05, 0), (0, -0.12), (0.5, 0.25), (-0.8, 0.6)]
)
def test_a_shift_of_parts_of_a_pixel_is_found(down: float, right: float) -> None:
    picture = photograph(1)
    found = shift(moved(picture, down, right), picture)
    assert found == pytest.approx((down, right), abs=0.02)


def test_psnr_is_that_of_the_textbook() -> None:
    flat = np.zeros((8, 8, 3), np.uint8)
    assert psnr(flat, flat) == math.inf
    assert psnr(flat, flat + 255) == pytest.approx(0.0)
    assert psnr(flat, flat + 1) == pytest.approx(48.13, abs=0.01)


def test_the_two_decoders_are_compared_crop_by_crop(tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    for index in range(6):
        side = (256, 1400)[index % 2]  # of the larger ones decode.jpeg makes less than all
        Image.fromarray(photograph(index, side)).save(tmp_path / "all" / f"{index}.jpg", quality=92)
    found = compare(tmp_path, 6, lambda text: None)
    assert len(found) == 6
    assert all(one.psnr_db > 40 for one in found)
    assert all(math.hypot(*one.shift_px) < 0.1 for one in found)
    assert len(compare(tmp_path, 2, lambda text: None)) == 2


def _verdicts(found: list[Likeness]) -> list[bool]:
    return [target.met for target in targets(found)]


def test_the_bounds_are_held_to_what_was_found() -> None:
    good = [Likeness(math.inf, (0.0, 0.0))] * 90 + [Likeness(45.0, (0.01, -0.01))] * 10
    assert _verdicts(good) == [True] * 4
    assert targets(good)[0].figure.value == pytest.approx(0.9 * EQUAL_DB + 4.5)  # type: ignore[union-attr]
    assert _verdicts([*good, *[Likeness(30.0, (0, 0))] * 2])[1] is False
    assert _verdicts([Likeness(49.0, (0, 0))] * 9)[0] is False


def test_a_shift_that_all_pictures_share_is_told_from_a_stray_one() -> None:
    assert _verdicts([Likeness(60.0, (0.12, 0.0))] * 50)[2:] == [False, False]
    stray = [Likeness(60.0, (0.0, 0.0))] * 99 + [Likeness(60.0, (0.0, 0.5))]
    assert _verdicts(stray)[2:] == [True, False]
