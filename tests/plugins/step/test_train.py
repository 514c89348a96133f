"""step.train and step.evaluate as stages."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from stoker.parameters import faults
from stoker.plugins import host
from stoker.session import StepContext
from stoker.stages import Surroundings
from stoker.task import Task
from stoker.testing import check_stage
from stoker_plugins import memory, precision, step


def make_model() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 3))


def loss(model: Any, batch: Any) -> tuple[torch.Tensor, int]:
    logits = model(batch["x"])
    return nn.functional.cross_entropy(logits, batch["y"], reduction="sum"), len(logits)


def accuracy(model: Any, batch: Any) -> dict[str, tuple[torch.Tensor, int]]:
    right = model(batch["x"]).argmax(1) == batch["y"]
    return {"accuracy": (right.sum(), len(right))}


def adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=0.2)


TASK = Task(model=make_model, loss=loss, optimizer=adam, metrics=accuracy)


def batch(seed: int, samples: int = 32) -> dict[str, torch.Tensor]:
    x = torch.randn(samples, 2, 3, generator=torch.Generator().manual_seed(seed))
    return {"x": x, "y": x.sum(1).argmax(1)}


def context(policy: Any, *policies: Any, model: Any = None) -> StepContext:
    return StepContext(torch.device("cpu"), 17, policy, policies, model)


@pytest.mark.parametrize("stage", [step.Train(TASK), step.Evaluate(TASK)])
def test_contract(stage: Any) -> None:
    check_stage(stage)
    assert host().stage_class(stage.name) is type(stage)
    assert list(stage.check(Surroundings((stage,), 0))) == []


def test_only_train_trains() -> None:
    assert step.Train.trains
    assert not step.Evaluate.trains
    assert not step.Timed.trains


def test_problems_are_told_before_the_start() -> None:
    around = Surroundings((), 0)
    bare: Any = step.Train("photos")
    assert list(faults(bare)) == [], "the stage itself judges its task"
    assert "allowed is a stoker.Task" in next(iter(bare.check(around)))
    lacking = Task(model=make_model, loss=loss)
    assert "needs Task(optimizer=...)" in next(iter(step.Train(lacking).check(around)))
    assert list(step.Evaluate(lacking).check(around)) == []


@pytest.mark.parametrize("policy", [precision.Fp32(), precision.Bf16()])
def test_a_model_is_trained_and_measured_within_one_run(policy: Any) -> None:
    policies = (memory.MicroBatch(20), memory.Accumulate(gradient_accumulation_steps=2))
    with step.Train(TASK).open(context(policy, *policies)) as training:
        results = []
        for _ in range(3):
            with step.Evaluate(TASK).open(context(policy, model=training.model)) as measuring:
                for seed in (100, 101):
                    measuring(batch(seed, 25))
                results.append(measuring.results())
            updates = [training(batch(seed)).updated for seed in range(7)]
            assert sum(updates) == 3
            last = training.end_epoch()
            assert last is not None
            assert last.updated
    assert results[2]["accuracy"] > results[0]["accuracy"]
    assert results[2]["loss"] < 0.7 * results[0]["loss"]
