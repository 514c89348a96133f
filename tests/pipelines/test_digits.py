from __future__ import annotations

import pickle

import pytest
import torch

from stoker.engine.plan import make_plan
from stoker.run.runner import Run
from stoker_pipelines.digits import (
    WarmUpAndDecay,
    accuracy,
    adamw,
    cross_entropy,
    digits,
    digits_val,
    make_model,
)


def batch_of(count):
    generator = torch.Generator().manual_seed(0)
    return {
        "image": torch.rand((count, 3, 8, 8), generator=generator),
        "label": torch.arange(count) % 10,
    }


def test_it_can_be_planned(digits_folder):
    pipeline = digits(str(digits_folder))
    plan = make_plan(pipeline, needs_step=True)
    assert plan.evaluation is not None
    assert pipeline.options.evaluate == digits_val(str(digits_folder))
    assert pipeline == digits(str(digits_folder))
    assert pipeline != digits(str(digits_folder), epochs=11)
    assert pickle.loads(pickle.dumps(pipeline.stages)) == pipeline.stages


def test_batches_are_as_the_model_wants_them(digits_folder):
    with digits(str(digits_folder), batch_size=32) as loader:
        assert len(loader) == 1438 // 32
        batch = next(iter(loader))
    assert batch["image"].shape == (32, 3, 8, 8)
    assert batch["image"].dtype == torch.float32
    assert batch["label"].dtype == torch.int64
    assert make_model()(batch["image"]).shape == (32, 10)


def test_validation_sees_every_picture_once_and_unchanged(digits_folder):
    with digits_val(str(digits_folder)) as loader:
        batches = list(loader)
    keys = [key for batch in batches for key in batch["__key__"]]
    assert len(keys) == len(set(keys)) == 359
    pixels = torch.cat([batch["image"] for batch in batches])
    levels = ((pixels * 0.376 + 0.305) * 16).round() / 16
    assert ((pixels * 0.376 + 0.305) - levels).abs().max() < 0.01  # 17 grey levels, not resized
    assert len(levels.unique()) == 17


def test_training_pictures_are_normalised(digits_folder):
    with digits(str(digits_folder), batch_size=512) as loader:
        pixels = next(iter(loader))["image"]
    assert abs(pixels.mean().item()) < 0.2
    assert 0.8 < pixels.std().item() < 1.2


def test_the_loss_is_a_sum_that_may_be_split():
    torch.manual_seed(0)
    model, batch = make_model(), batch_of(12)
    whole, count = cross_entropy(model, batch)
    parts = [
        cross_entropy(model, {name: value[part] for name, value in batch.items()})
        for part in (slice(0, 5), slice(5, 12))
    ]
    assert count == sum(part[1] for part in parts) == 12
    torch.testing.assert_close(whole, parts[0][0] + parts[1][0])


def test_accuracy_counts_what_is_right():
    batch = batch_of(10)
    logits = torch.eye(10)
    logits[3] = torch.eye(10)[4]
    right, count = accuracy(lambda images: logits, batch)["accuracy"]
    assert (int(right), count) == (9, 10)


def test_the_schedule_rises_then_decays_and_has_no_end():
    optimizer = adamw(make_model(8).parameters())
    schedule = WarmUpAndDecay(updates=20)(optimizer)
    rates = []
    for _ in range(25):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert rates[:4] == pytest.approx([1e-3, 2e-3, 3e-3, 4e-3])
    assert rates[4:20] == sorted(rates[4:20], reverse=True)
    assert rates[20:] == pytest.approx([0.0] * 5, abs=1e-9)


def test_a_few_updates_learn(digits_folder):
    torch.manual_seed(0)
    model = make_model()
    with digits(str(digits_folder)) as loader:
        batch = next(iter(loader))
    optimizer = adamw(model.parameters())
    losses = []
    for _ in range(20):
        loss, count = cross_entropy(model, batch)
        losses.append(loss.item() / count)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < losses[0] / 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_it_reaches_its_accuracy(digits_folder, tmp_path, seed):
    pipeline = digits(str(digits_folder)).with_options(seed=seed)
    result = Run(pipeline, runs=tmp_path).execute()
    assert len(result["evaluations"]) == 10
    assert result["evaluations"][-1]["metrics"]["accuracy"] >= 0.98
