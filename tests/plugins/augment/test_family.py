"""What holds for all stages that change pictures one at a time (B17, B18)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stoker import Pipeline
from stoker.testing import apply
from stoker_plugins import augment, collate
from tests.plugins.augment.pictures import frozen, noise
from tests.toys import Numbers

STAGES: dict[str, Any] = {
    "random_resized_crop": augment.RandomResizedCrop(16),
    "random_crop": augment.RandomCrop(16, padding=2),
    "resize": augment.Resize(16),
    "center_crop": augment.CenterCrop(16),
    "pad": augment.Pad(48),
    "flip": augment.Flip(p=1.0),
    "color_jitter": augment.ColorJitter(0.4, 0.4, 0.4, 0.1),
    "random_erasing": augment.RandomErasing(p=1.0),
    "rand_augment": augment.RandAugment(),
}
ONLY_8_BIT = {"color_jitter", "rand_augment"}


def test_no_stage_is_forgotten() -> None:
    others = {"normalize", "mixup", "cutmix", "apply"}  # batches, and people's own functions
    names = {entry.name.partition(".")[2] for entry in augment.stoker_stages()}
    assert names == STAGES.keys() | others


@pytest.mark.parametrize("name", sorted(STAGES))
@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_B18_pictures_are_never_changed_and_come_out_dense(
    name: str, channels: int, dtype: Any
) -> None:
    image = noise(40, 36, channels).astype(dtype)
    before = image.copy()
    stage = STAGES[name]
    refused = name in ONLY_8_BIT and dtype != np.uint8
    if refused or (name == "rand_augment" and channels == 4):
        with pytest.raises(TypeError, match=rf"augment.{name} was given a picture of shape \(40"):
            apply(stage, {"image": frozen(image)})
        return
    for view in (frozen(image), frozen(image[:, ::-1])[:, ::-1]):
        first = apply(stage, {"image": view})["image"]
        second = apply(stage, {"image": view})["image"]
        assert np.array_equal(first, second)
        assert np.array_equal(image, before)
        assert first.flags.c_contiguous
        assert first.dtype == dtype
        assert first.shape[2] == channels


@pytest.mark.parametrize("name", sorted(STAGES))
def test_a_picture_without_channels_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=r"field 'image' holds ndarray of shape \(40, 36\)"):
        apply(STAGES[name], {"image": noise(40, 36)[:, :, 0]})


@pytest.mark.parametrize("name", sorted(STAGES))
def test_B17_draws_depend_on_seed_epoch_sample_and_stage_alone(name: str) -> None:
    def run(executor: str, workers: int) -> list[bytes]:
        places: dict[str, Any] = {"executor": executor, "num_workers": workers}
        made = Pipeline(
            "b17",
            Numbers(12, executor=executor, num_workers=workers),  # type: ignore[arg-type]
            augment.Apply(_picture, field=None, **places),
            type(STAGES[name])(**{**_parameters(STAGES[name]), **places}),
            collate.List(4),
            seed=7,
            epochs=2,
        )
        with made as loader:
            return [i.tobytes() for _ in range(2) for batch in loader for i in batch["image"]]

    inline = run("inline", 1)
    assert run("thread", 1) == inline
    assert run("thread", 4) == inline
    if not STAGES[name].deterministic and name != "flip":
        assert inline[:12] != inline[12:]


def _picture(sample: dict[str, Any]) -> dict[str, Any]:
    return {**sample, "image": noise(40, 36, seed=sample["x"])}


def _parameters(stage: Any) -> dict[str, Any]:
    from stoker.parameters import parameters

    return {name: getattr(stage, name) for name in parameters(type(stage))}
