from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image

from stoker.parameters import faults
from stoker.stages import Surroundings
from stoker.testing import apply, check_stage
from stoker_plugins import augment
from stoker_plugins.augment.randaugment import OPERATIONS
from tests.plugins.augment.pictures import frozen, noise, smooth

WITHOUT_STRENGTH = {"autocontrast", "equalize"}


def test_contract() -> None:
    check_stage(augment.RandAugment())


def painted(name: str, strength: float, image: Any, fill: Any = (0, 0, 0)) -> Any:
    paint, _ = OPERATIONS[name]
    return np.asarray(paint(Image.fromarray(image), strength, fill))


def test_the_operations_are_those_of_the_paper() -> None:
    assert set(OPERATIONS) == {
        *("identity", "autocontrast", "equalize", "rotate", "solarize", "color", "posterize"),
        *("contrast", "brightness", "sharpness", "shear_x", "shear_y", "translate_x"),
        "translate_y",
    }


@pytest.mark.parametrize("name", sorted(set(OPERATIONS) - WITHOUT_STRENGTH))
def test_without_strength_nothing_changes(name: str) -> None:
    image = smooth(40, 30)
    assert np.array_equal(painted(name, 0.0, image), image)


@pytest.mark.parametrize("name", sorted(set(OPERATIONS) - WITHOUT_STRENGTH - {"identity"}))
def test_more_strength_changes_more(name: str) -> None:
    image = noise(64, 64)  # a smooth one has nothing to sharpen
    for sign in (1, -1) if OPERATIONS[name][1] else (1,):
        changes = [
            np.abs(painted(name, sign * s, image).astype(int) - image).mean()
            for s in (0.1, 0.3, 0.6, 1.0)
        ]
        assert changes == sorted(changes)
        assert changes[-1] > 0.5


def test_geometry_is_that_of_its_name() -> None:
    image = np.zeros((100, 100, 3), np.uint8)
    image[50, 50] = 255

    def place(name: str, strength: float) -> tuple[int, int]:
        lit = painted(name, strength, image)[:, :, 0].nonzero()
        return int(lit[0].mean().round()), int(lit[1].mean().round())

    by = round(100 * 150 / 331 * 0.5)
    assert place("translate_x", 0.5) == (50, 50 - by)
    assert place("translate_y", -0.5) == (50 + by, 50)
    assert place("shear_x", 1.0) == (50, 50 - 15)
    assert place("shear_y", 1.0) == (50 - 15, 50)
    corner = painted("rotate", 1.0, np.full((64, 64, 3), 9, np.uint8), fill=(1, 2, 3))
    assert corner[0, 0].tolist() == [1, 2, 3]


def test_solarize_and_posterize_by_their_definitions() -> None:
    image = np.arange(256, dtype=np.uint8).repeat(3).reshape(1, 256, 3)
    half = painted("solarize", 0.5, image)[0, :, 0]
    assert half.tolist() == [n if n < 128 else 255 - n for n in range(256)]
    assert len(np.unique(painted("posterize", 1.0, image))) == 16


@pytest.mark.parametrize("channels", [1, 3])
def test_shape_and_dtype_stay_and_all_operations_come_up(channels: int) -> None:
    image = noise(24, 20, channels)
    outs = [
        apply(augment.RandAugment(1, 30), {"image": frozen(image)}, position=n)["image"]
        for n in range(120)
    ]
    assert {(out.shape, out.dtype.name) for out in outs} == {((24, 20, channels), "uint8")}
    assert len({out.tobytes() for out in outs}) > 15  # 14 operations, most of them with a sign
    same = apply(augment.RandAugment(0), {"image": image})["image"]
    assert same is image


def test_a_magnitude_beyond_its_bins_is_refused() -> None:
    def problems(stage: Any) -> list[str]:
        return [*faults(stage), *stage.check(Surroundings((stage,), 0))]

    assert problems(augment.RandAugment(2, 30)) == []
    [problem] = problems(augment.RandAugment(2, 31))
    assert "allowed is 0 to 30" in problem
    [problem] = problems(augment.RandAugment(fill=(0, 256, 0)))
    assert "from 0 to 255" in problem


@pytest.mark.parametrize(("channels", "fill"), [(1, 7), (1, (7,)), (3, 7), (3, (7, 8, 9))])
def test_what_comes_in_from_outside_has_the_fill(channels: int, fill: Any) -> None:
    image = np.zeros((30, 30, channels), np.uint8)
    seen = set()
    for position in range(60):  # black itself stays black
        out = apply(augment.RandAugment(1, 9, fill=fill), {"image": image}, position=position)
        seen |= {tuple(pixel) for pixel in out["image"].reshape(-1, channels).tolist()}
    wanted = tuple(fill) if isinstance(fill, tuple) else (fill,) * channels
    assert seen == {(0,) * channels, wanted}


def test_a_fill_for_other_channels_is_named() -> None:
    stage = augment.RandAugment(fill=(1, 2, 3))
    with pytest.raises(ValueError, match=r"rand_augment was given fill=\(1, 2, 3\) .* \(9, 9, 1\)"):
        apply(stage, {"image": noise(9, 9, 1)})
