"""What holds for all stages of the family (B17, B18)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from stoker import Pipeline
from stoker.parameters import parameters
from stoker.testing import apply
from stoker_plugins import augment, collate
from tests.plugins.augment.pictures import frozen, noise
from tests.toys import Numbers


def brighten(image: Any) -> Any:
    """Return the picture brighter, changed in place as people's own functions do."""
    image += image.dtype.type(3)
    return image


PICTURES: dict[str, Any] = {
    "random_resized_crop": augment.RandomResizedCrop(16),
    "random_crop": augment.RandomCrop(16, padding=2),
    "resize": augment.Resize(16),
    "center_crop": augment.CenterCrop(16),
    "pad": augment.Pad(48),
    "flip": augment.Flip(p=1.0),
    "color_jitter": augment.ColorJitter(0.4, 0.4, 0.4, 0.1),
    "random_erasing": augment.RandomErasing(p=1.0),
    "rand_augment": augment.RandAugment(),
    "apply": augment.Apply(brighten, field="image"),
}
"""Those that take one picture at a time."""

BATCHES: dict[str, Any] = {
    "normalize": augment.Normalize(),
    "mixup": augment.Mixup(10),
    "cutmix": augment.Cutmix(10),
}

SIDES = {"random_resized_crop": 16, "random_crop": 16, "resize": 16, "center_crop": 16, "pad": 48}
"""Of the results of those that change it; the picture is wider than high."""

TAKEN = {"color_jitter": {"uint8", "uint16"}, "rand_augment": {"uint8"}}
"""The dtypes of those that do not take all."""


def test_no_stage_is_forgotten() -> None:
    names = {entry.name.partition(".")[2] for entry in augment.stoker_stages()}
    assert names == PICTURES.keys() | BATCHES.keys()


def picture(channels: int, dtype: str) -> Any:
    return noise(36, 40, channels).astype(dtype)


def refused(name: str, channels: int, dtype: str) -> bool:
    return dtype not in TAKEN.get(name, {dtype}) or (name == "rand_augment" and channels == 4)


KINDS = [(1, "uint8"), (3, "uint8"), (4, "uint8"), (1, "uint16"), (3, "uint16"), (3, "float32")]


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize(("channels", "dtype"), KINDS)
def test_B18_pictures_are_never_changed_and_come_out_dense(
    name: str, channels: int, dtype: str
) -> None:
    image, stage = picture(channels, dtype), PICTURES[name]
    before = image.copy()
    if refused(name, channels, dtype):
        words = rf"augment.{name} was given a picture of shape \(36, 40, {channels}\)"
        with pytest.raises(TypeError, match=words):
            apply(stage, {"image": frozen(image)})
        return
    # What a cache keeps may be read-only, or be somebody's view of another picture.
    outs = [
        apply(stage, {"image": view})["image"]
        for view in (frozen(image), frozen(image), image, frozen(image[:, ::-1].copy())[:, ::-1])
    ]
    assert np.array_equal(image, before)
    for out in outs:
        assert np.array_equal(out, outs[0])
        assert out.flags.c_contiguous
        assert out.dtype == dtype
        side = SIDES.get(name)
        shape = (36, 40) if side is None else (16, 17) if name == "resize" else (side, side)
        assert out.shape == (*shape, channels)


@pytest.mark.parametrize("name", sorted(PICTURES.keys() - {"pad"}))
def test_B18_what_comes_out_is_not_the_memory_of_what_came_in(name: str) -> None:
    image = picture(3, "uint8")
    for position in range(4):
        out = apply(PICTURES[name], {"image": image}, position=position)["image"]
        assert out is image or not np.shares_memory(out, image)


@pytest.mark.parametrize("name", BATCHES)
def test_B18_batches_are_never_changed(name: str) -> None:
    images = torch.from_numpy(np.stack([noise(12, 16, seed=n) for n in range(6)]))
    given = {"image": images, "label": torch.arange(6)}
    before = {field: value.clone() for field, value in given.items()}
    one, other = (apply(BATCHES[name], given) for _ in range(2))
    for field, value in before.items():
        assert torch.equal(given[field], value)
        assert torch.equal(one[field], other[field])
    assert not torch.equal(one["image"].float(), images.float())


@pytest.mark.parametrize("name", sorted(PICTURES.keys() - {"apply"}))
@pytest.mark.parametrize("shape", [(36, 40), (2, 36, 40, 3)])
def test_what_is_no_picture_is_refused(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(TypeError, match="field 'image' holds ndarray of shape") as caught:
        apply(PICTURES[name], {"image": np.zeros(shape, np.uint8)})
    assert str(shape) in str(caught.value)


# -- the draws -------------------------------------------------------------------------


def make_picture(sample: dict[str, Any]) -> dict[str, Any]:
    return {**sample, "image": noise(36, 40, seed=sample["x"])}


def draw(sample: dict[str, Any], rng: Any) -> dict[str, Any]:
    """Return the sample with a draw from each face of the generator."""
    faces = (
        rng.numpy.integers(1 << 40),
        rng.random.randrange(1 << 40),
        torch.randint(1 << 40, (1,), generator=rng.torch),
    )
    return {**sample, "draws": tuple(map(int, faces))}


def ran(stages: list[Any], executor: Any, workers: int) -> list[list[tuple[Any, bytes]]]:
    """Return (draws, picture) of each sample, by epoch, with the stages run in one way."""
    way: dict[str, Any] = {"executor": executor, "num_workers": workers}
    anew = [
        type(stage)(**{**{name: getattr(stage, name) for name in parameters(type(stage))}, **way})
        for stage in (augment.Apply(make_picture), augment.Apply(draw), *stages)
    ]
    pipeline = Pipeline("b17", Numbers(8, **way), *anew, collate.List(4), seed=7, epochs=2)
    with pipeline as loader:
        return [
            [
                (draws, image.tobytes())
                for batch in loader
                for draws, image in zip(batch["draws"], batch["image"], strict=True)
            ]
            for _ in range(2)
        ]


@pytest.mark.parametrize("name", PICTURES)
def test_B17_draws_depend_on_seed_epoch_sample_and_stage_alone(name: str) -> None:
    stage = PICTURES[name]
    inline = ran([stage], "inline", 1)
    assert ran([stage], "thread", 1) == inline
    assert ran([stage], "thread", 4) == inline
    first, second = inline
    assert len({draws[face] for epoch in inline for draws, _ in epoch for face in range(3)}) == 48
    if stage.deterministic or name in {"flip", "apply"}:  # p=1, and a function without draws
        assert [image for _, image in first] == [image for _, image in second]
    else:
        assert all(one != other for (_, one), (_, other) in zip(first, second, strict=True))


@pytest.mark.parametrize("workers", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_B17_nor_do_they_depend_on_processes(workers: int) -> None:
    chain = [stage for name, stage in PICTURES.items() if name != "apply"]
    assert ran(chain, "process", workers) == ran(chain, "inline", 1)
