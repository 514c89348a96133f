from __future__ import annotations

import numpy as np
import pytest
import torch

from stoker.rng import Rng
from stoker.stages import Surroundings, Worker
from stoker.testing import apply, check_stage
from stoker_plugins.augment.normalize import Normalize


def batch_of(*shape):
    generator = torch.Generator().manual_seed(0)
    return {
        "image": torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator),
        "label": torch.zeros(shape[0]),
        "__key__": ["k"] * shape[0],
    }


def reference(images, mean, std):
    x = images.numpy().astype(np.float64) / 255
    return ((x - np.array(mean)) / np.array(std)).transpose(0, 3, 1, 2)


def problems(stage):
    return list(stage.check(Surroundings((stage,), 0)))


def test_contract():
    check_stage(Normalize())
    check_stage(Normalize(mean=(0,), std=(1,)))
    assert Normalize.resource == "device"
    assert not problems(Normalize())
    assert not problems(Normalize(mean=(0,), std=(1,)))


@pytest.mark.parametrize("shape", [(2, 5, 7, 3), (1, 1, 1, 3), (3, 32, 16, 3)])
def test_equals_the_reference(shape):
    batch = batch_of(*shape)
    stage = Normalize()
    out = apply(stage, batch)["image"]
    assert out.dtype == torch.float32
    assert out.shape == (shape[0], 3, shape[1], shape[2])
    assert out.is_contiguous(memory_format=torch.channels_last)
    expected = reference(batch["image"], stage.mean, stage.std)
    np.testing.assert_allclose(out.numpy(), expected, atol=2e-6)


def test_grey_and_one_value_for_all_channels():
    for channels in (1, 3, 5):
        batch = batch_of(2, 4, 6, channels)
        out = apply(Normalize(mean=(0.5,), std=(0.25,)), batch)["image"]
        expected = reference(batch["image"], [0.5], [0.25])
        np.testing.assert_allclose(out.numpy(), expected, atol=2e-6)
        assert out.is_contiguous(memory_format=torch.channels_last)


def test_the_batch_given_is_not_changed():
    batch = batch_of(2, 4, 4, 3)
    before = batch["image"].clone()
    out = apply(Normalize(), batch)
    assert batch["image"].equal(before)
    assert batch["image"].dtype == torch.uint8
    assert out is not batch
    assert out["label"] is batch["label"]
    assert out["__key__"] == ["k", "k"]


def test_one_worker_serves_batches_of_changing_shape():
    stage, rng = Normalize(), Rng(0, "test")
    with stage.open(Worker()) as normalize:
        for shape in [(2, 4, 6, 3), (1, 9, 3, 3), (2, 3, 20, 3), (2, 4, 6, 3)]:
            batch = batch_of(*shape)
            out = normalize(batch, rng)["image"]
            expected = reference(batch["image"], stage.mean, stage.std)
            np.testing.assert_allclose(out.numpy(), expected, atol=2e-6)


def test_a_part_of_a_batch_and_an_empty_one():
    batch = batch_of(4, 5, 6, 3)
    whole = apply(Normalize(), batch)["image"]
    part = apply(Normalize(), {"image": batch["image"][1:3, 1:, 2:]})["image"]
    assert part.equal(whole[1:3, :, 1:, 2:])
    assert apply(Normalize(), {"image": batch["image"][:0]})["image"].shape == (0, 3, 5, 6)


def test_works_where_the_batch_is():
    batch = {"image": torch.empty((2, 4, 6, 3), dtype=torch.uint8, device="meta")}
    out = apply(Normalize(), batch)["image"]
    assert (out.device.type, out.shape) == ("meta", (2, 3, 4, 6))


@pytest.mark.parametrize(
    ("batch", "error", "words"),
    [
        ([1], TypeError, "the batch is a list; allowed is a dict"),
        ({"pixels": 1}, KeyError, "no field 'image'; the sample has: pixels"),
        ({"image": [1]}, TypeError, r"'image' holds a list.*collate\.Stack"),
        ({"image": torch.zeros(2, 4, 4, 3)}, TypeError, r"torch\.float32 of shape \(2, 4, 4, 3\)"),
        ({"image": torch.zeros(4, 4, 3, dtype=torch.uint8)}, TypeError, r"of shape \(4, 4, 3\)"),
        ({"image": torch.zeros(1, 4, 4, 1, dtype=torch.uint8)}, ValueError, "1 channels.*3 values"),
    ],
)
def test_what_cannot_be_normalised_is_named(batch, error, words):
    with pytest.raises(error, match=words):
        apply(Normalize(), batch)


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        (Normalize(mean=(123.7, 116.3, 103.5)), "divided by 255"),
        (Normalize(std=(0.2, 0.0, 0.2)), "0 left out"),
        (Normalize(mean=(0.5,)), "mean has 1 values and std 3"),
        (Normalize(mean=(), std=()), "mean has 0 values"),
        (Normalize(mean=(float("nan"), 0, 0)), "from 0 to 1"),
    ],
)
def test_wrong_parameters_are_found_before_the_run(stage, words):
    found = problems(stage)
    assert len(found) == 1
    assert words in found[0]
