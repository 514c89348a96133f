from __future__ import annotations

import colorsys
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from stoker.testing import apply, check_stage
from stoker_plugins import augment
from stoker_plugins.augment.jitter import turned
from tests.plugins.augment.pictures import frozen, noise, smooth


def test_contract() -> None:
    check_stage(augment.ColorJitter(0.4, 0.4, 0.4, 0.1))


@pytest.mark.parametrize(
    ("name", "enhancer"),
    [
        ("brightness", ImageEnhance.Brightness),
        ("contrast", ImageEnhance.Contrast),
        ("saturation", ImageEnhance.Color),
    ],
)
def test_each_alone_is_pillows_with_a_factor_in_range(name: str, enhancer: Any) -> None:
    image = smooth(30, 40)
    stage = augment.ColorJitter(**{name: 0.5})
    factors = []
    for position in range(40):
        out = apply(stage, {"image": frozen(image)}, position=position)["image"]
        candidates = np.linspace(0.5, 1.5, 101)
        errors = [
            np.abs(
                np.asarray(enhancer(Image.fromarray(image)).enhance(f), int) - out.astype(int)
            ).mean()
            for f in candidates
        ]
        assert min(errors) < 1.0
        factors.append(candidates[int(np.argmin(errors))])
    assert min(factors) < 0.65
    assert max(factors) > 1.35


def test_the_hue_is_turned_as_colorsys_turns_it() -> None:
    image = smooth(20, 20)
    out = np.asarray(turned(0.25, Image.fromarray(image)))
    for before, after in zip(image.reshape(-1, 3), out.reshape(-1, 3), strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*(before / 255))
        wanted = np.array(colorsys.hsv_to_rgb((hue + 0.25) % 1, saturation, value)) * 255
        assert np.abs(wanted - after).max() < 8  # 8-bit HSV rounds
    assert np.abs(np.asarray(turned(0.0, Image.fromarray(image)), int) - image).max() < 6


def test_grey_has_no_hue_and_alpha_stays() -> None:
    stage = augment.ColorJitter(0.5, 0.5, 0.5, 0.5)
    grey, alpha = noise(9, 9, 1), noise(9, 9, 4)
    assert apply(stage, {"image": frozen(grey)})["image"].shape == (9, 9, 1)
    out = apply(stage, {"image": frozen(alpha)})["image"]
    assert np.array_equal(out[:, :, 3], alpha[:, :, 3])
    assert not np.array_equal(out[:, :, :3], alpha[:, :, :3])


def test_a_share_of_the_pictures_is_changed() -> None:
    stage, image = augment.ColorJitter(0.9, p=0.3), smooth(8, 8)
    changed = sum(
        not np.array_equal(apply(stage, {"image": image}, position=n)["image"], image)
        for n in range(400)
    )
    assert 80 < changed < 165


def test_what_changes_nothing_is_said() -> None:
    assert list(augment.ColorJitter().check(None)) != []  # type: ignore[arg-type]
