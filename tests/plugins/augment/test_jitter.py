from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stoker.rng import Rng
from stoker.stages import Surroundings
from stoker.testing import apply, check_stage
from stoker_plugins import augment
from stoker_plugins.augment.colour import brighten, change_contrast, saturate, turn_hue
from tests.plugins.augment.pictures import frozen, noise, smooth

NAMES = {
    "brightness": brighten,
    "contrast": change_contrast,
    "saturation": saturate,
    "hue": turn_hue,
}


def drawn(stage: Any, position: int, *, coloured: bool = True) -> list[tuple[Any, float]]:
    return stage._changes(Rng(0, stage.name).move(0, position), coloured=coloured)


def test_contract() -> None:
    check_stage(augment.ColorJitter(0.4, 0.4, 0.4, 0.1))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("amount", [0.3, 0.5, 1.5])
def test_amounts_are_uniform_in_their_range(name: str, amount: float) -> None:
    if name == "hue":
        amount /= 3
    low, high = (-amount, amount) if name == "hue" else (max(0.0, 1 - amount), 1 + amount)
    stage = augment.ColorJitter(**{name: amount})
    found = []
    for position in range(600):
        ((change, value),) = drawn(stage, position)
        assert change is NAMES[name]
        found.append((value - low) / (high - low))
    quartiles = np.quantile(found, [0, 0.25, 0.5, 0.75, 1])
    assert np.abs(quartiles - [0, 0.25, 0.5, 0.75, 1]).max() < 0.08


def test_all_orders_of_the_four_come_up() -> None:
    stage = augment.ColorJitter(0.4, 0.4, 0.4, 0.1)
    orders = {tuple(change for change, _ in drawn(stage, n)) for n in range(400)}
    assert len(orders) == 24


def test_the_picture_goes_through_what_is_drawn_in_that_order() -> None:
    image = smooth(12, 16)
    brighter, paler = augment.ColorJitter(brightness=1.0), augment.ColorJitter(saturation=1.0)
    for stage, reference in (
        (brighter, lambda x, factor: x * factor),
        (paler, lambda x, f: f * x + (1 - f) * (x @ [0.299, 0.587, 0.114])[..., None]),
    ):
        stage_draws = Rng(0, stage.name).move(0, 0).random
        assert stage_draws.random() < 1  # whether at all: drawn before the factor
        factor = stage_draws.uniform(0.0, 2.0)
        wanted = np.clip(reference(image.astype(float), factor), 0, 255)
        out = apply(stage, {"image": frozen(image)})["image"]
        assert np.abs(out - wanted).max() <= 0.51


def test_grey_has_no_hue_and_no_saturation() -> None:
    grey = noise(9, 9, 1)
    out = apply(augment.ColorJitter(saturation=0.5, hue=0.5), {"image": frozen(grey)})["image"]
    assert np.array_equal(out, grey)
    everything = augment.ColorJitter(0.5, 0.5, 0.5, 0.5)
    assert {c for c, _ in drawn(everything, 0, coloured=False)} == {brighten, change_contrast}


@pytest.mark.parametrize("channels", [2, 4])
def test_alpha_stays(channels: int) -> None:
    image = noise(9, 9, channels)
    out = apply(augment.ColorJitter(0.5, 0.5, 0.5, 0.5), {"image": frozen(image)})["image"]
    assert np.array_equal(out[:, :, -1], image[:, :, -1])
    assert not np.array_equal(out[:, :, :-1], image[:, :, :-1])


def test_sixteen_bits_are_those_of_eight_on_a_finer_scale() -> None:
    stage, image = augment.ColorJitter(0.4, 0.4, 0.4, 0.1), smooth(20, 20)
    coarse = apply(stage, {"image": image})["image"].astype(int)
    fine = apply(stage, {"image": image.astype(np.uint16) * np.uint16(257)})["image"]
    assert fine.dtype == np.uint16
    assert np.abs(fine / 257 - coarse).max() <= 2  # the mean grey is rounded on either scale


def test_a_share_of_the_pictures_is_changed() -> None:
    stage, image = augment.ColorJitter(0.9, p=0.3), smooth(8, 8)
    changed = sum(
        not np.array_equal(apply(stage, {"image": image}, position=n)["image"], image)
        for n in range(400)
    )
    assert 80 < changed < 165


def test_what_cannot_be_changed_is_named_whatever_is_drawn() -> None:
    for picture in (noise(4, 5, 5), noise(4, 5).astype(np.float32)):
        with pytest.raises(TypeError, match=r"color_jitter was given a picture of shape \(4, 5, "):
            apply(augment.ColorJitter(0.5, p=0.0), {"image": picture})


def test_what_changes_nothing_is_said() -> None:
    stage = augment.ColorJitter()
    [problem] = stage.check(Surroundings((stage,), 0))
    assert "give at least one of them" in problem
