"""A small training job that draws at random everywhere, for stopping and resuming."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from stoker import Pipeline, Task
from stoker.rng import Rng
from stoker.run.checkpoints import read
from stoker.sample import Sample
from stoker.stages import Gather, Map
from stoker_plugins import memory, step
from toys import Numbers

# 26 numbers in batches of 4: seven batches an epoch, the last one smaller.
BATCHES, EPOCHS = 7, 3
ALL_STEPS = BATCHES * EPOCHS


@dataclass(frozen=True)
class Noisy(Map):
    """Makes a point near a number."""

    name: ClassVar[str] = "training.noisy"
    kind: ClassVar[str] = "augment"
    amount: float = 0.1

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        noise = rng.numpy.normal(size=3) * self.amount
        return {**sample, "x": torch.tensor(noise + sample["x"] / 26, dtype=torch.float32)}


@dataclass(frozen=True)
class Points(Gather):
    """Batches of points."""

    name: ClassVar[str] = "training.points"
    batch_size: int = 4

    def group(self, sizes: Sequence[Any], more: bool) -> Sequence[Sequence[int]]:
        size, count = self.batch_size, len(sizes)
        whole = count - count % size if more else count
        return [range(i, min(i + size, count)) for i in range(0, whole, size)]

    def batches(self, samples: int) -> int:
        return -(-samples // self.batch_size)

    def assemble(self, samples: Sequence[Sample], alloc: Any) -> Any:
        return {
            "__key__": [sample["__key__"] for sample in samples],
            "x": torch.stack([sample["x"] for sample in samples]),
        }


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1))


def loss(model: nn.Module, batch: Any) -> tuple[torch.Tensor, int]:
    x = batch["x"]
    return (model(x) - x.sum(1, keepdim=True)).square().sum(), len(x)


@dataclass
class Signals:
    """A loss that sends signals at steps, by the count of its calls."""

    at: dict[int, Sequence[int]] = field(default_factory=dict)
    sleep_s: float = 0.0
    calls: int = 0

    def __call__(self, model: nn.Module, batch: Any) -> tuple[torch.Tensor, int]:
        time.sleep(self.sleep_s)
        self.calls += model.training
        for number in self.at.get(self.calls, ()) if model.training else ():
            os.kill(os.getpid(), number)
        return loss(model, batch)

    def __repr__(self) -> str:
        return "loss"


def adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=0.01)


def falling(optimizer: torch.optim.Optimizer) -> LambdaLR:
    return LambdaLR(optimizer, lambda update: 0.9**update)


def job(
    window: int = 1,
    *,
    a_loss: Any = None,
    read_s: float = 0.0,
    num_workers: int = 2,
    evaluate_loss: Any = loss,
    **options: Any,
) -> Pipeline:
    """Return a training pipeline with an evaluation after each epoch."""
    a_loss = a_loss if a_loss is not None else Signals()
    task = Task(model=model, loss=a_loss, optimizer=adam, schedule=falling)
    return Pipeline(
        "job",
        Numbers(26, shuffle=True, sleep_s=read_s, num_workers=num_workers),
        Noisy(),
        Points(),
        step.Train(task),
        **{
            "epochs": EPOCHS,
            "memory": memory.Accumulate(window) if window > 1 else (),
            "evaluate": Pipeline(
                "job_val",
                Numbers(10),
                Noisy(0.0),
                Points(),
                step.Evaluate(Task(model=model, loss=evaluate_loss)),
            ),
            "save_every_minutes": None,
            **options,
        },
    )


def slow_job() -> Pipeline:
    """Return a job that takes a second or more, for a process that is killed."""
    return job(2, a_loss=Signals(sleep_s=0.03), save_every_steps=2)


def saved(result: Any) -> Any:
    """Return the state of a result's last checkpoint."""
    return read(Path(result["checkpoint"])).state


def events(result: Any, name: str) -> list[Any]:
    lines = (Path(result["run"]) / "metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["event"] == name]


def assert_same(one: Any, other: Any, place: str = "state") -> None:
    """Assert that two trees are equal, tensors bit for bit."""
    assert type(one) is type(other), place
    if isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype, place
        assert torch.equal(one, other), place
    elif isinstance(one, dict):
        assert one.keys() == other.keys(), place
        for name in one:
            assert_same(one[name], other[name], f"{place}[{name!r}]")
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other), place
        for index, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_same(a, b, f"{place}[{index}]")
    else:
        assert one == other, place


def assert_same_run(resumed: Any, unbroken: Any) -> None:
    """Assert that a run in pieces came to what one without a break did."""
    for name in ("steps", "samples", "updates", "losses", "evaluations", "order", "epochs"):
        assert resumed[name] == unbroken[name], name
    one, other = saved(resumed), saved(unbroken)
    for name in ("step", "generators"):
        if name == "generators":
            assert_same(one[name]["torch"], other[name]["torch"], name)
        else:
            assert_same(one[name], other[name], name)


TERM = signal.SIGTERM
