from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

from stoker.engine.plan import make_plan
from stoker.resolve import Changes, configured
from stoker.rng import Rng
from stoker.run.runner import Run
from stoker_pipelines.photos import (
    Classifier,
    adamw,
    in_other_light,
    make_model,
    photos,
    photos_val,
    smoothed_cross_entropy,
)
from stoker_plugins.augment import Flip
from stoker_plugins.step import Timed


def test_it_feeds_a_step_of_a_set_time(photos_folder):
    pipeline = photos(str(photos_folder))
    plan = make_plan(pipeline, needs_step=True)
    assert plan.evaluation is None
    assert (plan.samples, pipeline.options.epochs) == (64, 1)
    # One A100 trains a ResNet-50 at 2,470 pictures/s, as NVIDIA publishes it.
    assert pipeline.stages[-1] == Timed(step_ms=26.0)
    assert pytest.approx(26.0, abs=0.1) == 64 / 2_470 * 1e3
    assert pickle.loads(pickle.dumps(pipeline.stages)) == pipeline.stages


def test_batches_are_as_the_device_wants_them(photos_folder):
    with photos(str(photos_folder), batch_size=16) as loader:
        assert len(loader) == 4
        batch = next(iter(loader))
    assert batch["image"].shape == (16, 3, 224, 224)
    assert batch["image"].dtype == torch.float32
    assert batch["image"].is_contiguous(memory_format=torch.channels_last)
    assert batch["label"].dtype == torch.int64


def test_the_command_line_sets_its_arguments(photos_folder):
    given = (f"data={photos_folder}", "batch_size=32", "size=96", "step_ms=1.5", "epochs=3")
    pipeline = configured("photos", Changes(args=given))
    assert pipeline == photos(str(photos_folder), 32, 96, 1.5, epochs=3)
    assert pipeline.options.epochs == 3
    trained = configured("photos", Changes(args=(f"data={photos_folder}", "train=True")))
    assert trained == photos(str(photos_folder), train=True)
    assert trained != photos(str(photos_folder), train=True, epochs=2)


def test_training_is_planned_with_its_evaluation(photos_folder):
    pipeline = photos(str(photos_folder), batch_size=16, train=True)
    plan = make_plan(pipeline, needs_step=True)
    assert plan.evaluation is not None
    assert pipeline.options.evaluate == photos_val(str(photos_folder), 64)
    # A mirrored picture turned by 90 degrees looks like one turned by 270.
    assert not any(isinstance(stage, Flip) for stage in pipeline.stages)
    with pipeline as loader:
        batch = next(iter(loader))
    assert batch["image"].shape == (16, 3, 64, 64)
    assert make_model()(batch["image"]).shape == (16, 8)


def test_validation_sees_every_picture_once_and_whole(photos_folder):
    with photos_val(str(photos_folder), 48) as loader:
        batches = list(loader)
    keys = [key for batch in batches for key in batch["__key__"]]
    assert len(keys) == len(set(keys)) == 32
    assert {tuple(batch["image"].shape[1:]) for batch in batches} == {(3, 48, 48)}
    labels = torch.cat([batch["label"] for batch in batches])
    assert torch.bincount(labels).tolist() == [4] * 8


def test_the_model_takes_any_size_and_number_of_classes():
    model = Classifier(classes=5, width=8)()
    assert model(torch.rand(2, 3, 64, 64)).shape == (2, 5)
    assert model(torch.rand(2, 3, 50, 70)).shape == (2, 5)
    assert Classifier(5) == Classifier(5) != Classifier(6)


def test_a_picture_does_not_depend_on_its_batch():
    torch.manual_seed(0)
    model = make_model(width=8)
    pictures = torch.rand(6, 3, 64, 64)
    whole = model(pictures)
    parts = torch.cat([model(pictures[:2]), model(pictures[2:])])
    torch.testing.assert_close(whole, parts)


def test_light_changes_colours_not_what_is_seen():
    ramp = np.linspace(60, 180, 64).astype(np.uint8)
    picture = np.repeat(np.repeat(ramp[:, None, None], 64, axis=1), 3, axis=2)
    picture[..., 0] += 20
    before, rng = picture.copy(), Rng(0, "light")
    made = [in_other_light(picture, rng.move(0, position)) for position in range(20)]
    assert (picture == before).all()
    assert all(one.shape == picture.shape and one.dtype == np.uint8 for one in made)
    assert all((np.diff(one.astype(int).mean((1, 2))) >= 0).all() for one in made)
    casts = [one.astype(int)[..., 0].mean() - one.astype(int)[..., 2].mean() for one in made]
    assert min(casts) < 0 < 30 < max(casts)
    assert (in_other_light(picture, rng.move(0, 3)) == made[3]).all()


def test_the_smoothed_loss_is_a_sum_that_may_be_split():
    torch.manual_seed(0)
    model, labels = make_model(width=8), torch.arange(6)
    batch = {"image": torch.rand(6, 3, 32, 32), "label": labels}
    whole, count = smoothed_cross_entropy(model, batch)
    parts = [
        smoothed_cross_entropy(model, {name: value[part] for name, value in batch.items()})
        for part in (slice(0, 2), slice(2, 6))
    ]
    assert count == sum(part[1] for part in parts) == 6
    torch.testing.assert_close(whole, parts[0][0] + parts[1][0])


def test_a_few_updates_learn(photos_folder):
    torch.manual_seed(0)
    model = make_model(width=8)
    with photos(str(photos_folder), batch_size=32, train=True) as loader:
        batch = next(iter(loader))
    optimizer = adamw(model.parameters())
    losses = []
    for _ in range(12):
        loss = torch.nn.functional.cross_entropy(model(batch["image"]), batch["label"])
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < 0.6 * losses[0]


def test_it_runs_and_accounts_for_every_picture(photos_folder, tmp_path):
    result = Run(photos(str(photos_folder), 16, 32, 0.5), runs=tmp_path).execute()
    assert (result["steps"], result["samples"]) == (4, 64)
    assert result["ledger"]["read"] == result["ledger"]["delivered"] == 64


@pytest.mark.slow
def test_it_reaches_its_accuracy(tmp_path):
    pipeline = photos(str(tmp_path / "photos"), train=True)
    result = Run(pipeline, runs=tmp_path).execute()
    assert len(result["evaluations"]) == pipeline.options.epochs
    assert result["evaluations"][-1]["metrics"]["accuracy"] >= 0.88
