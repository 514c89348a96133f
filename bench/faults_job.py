"""The training job that is killed: small, with everything whose state could be lost.

Its order is shuffled, its noise drawn a sample, its model has dropout and BatchNorm, its
optimizer momentum, its schedule a warm-up, an update gathers two batches, and the last batch
of an epoch is smaller.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy
import torch
from torch import nn

from stoker import Pipeline, Task
from stoker.parameters import param
from stoker.rng import Rng
from stoker.sample import Sample
from stoker.stages import Map, Source
from stoker_plugins import collate, memory, step

_WIDTH = 16


@dataclass(frozen=True)
class Rows(Source):
    """Rows of numbers and what they add up to."""

    name: ClassVar[str] = "faults.rows"

    samples: int = param(300, minimum=1)

    def addresses(self, epoch: int, rng: Rng) -> Sequence[int]:
        """Return another order in each epoch."""
        order: Sequence[int] = rng.numpy.permutation(self.samples)
        return order

    def read(self, address: Any) -> Sample:
        """Return the row of a number."""
        row = numpy.sin(numpy.arange(_WIDTH) * (address + 1)).astype(numpy.float32)
        return {"__key__": f"{address:06}", "x": row, "y": float(row.sum())}


@dataclass(frozen=True)
class Noise(Map):
    """Adds noise, and takes its time."""

    name: ClassVar[str] = "faults.noise"
    kind: ClassVar[str] = "augment"

    sleep_ms: float = param(6.0, minimum=0.0)

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        """Return the sample with noise that is drawn for it."""
        time.sleep(self.sleep_ms / 1e3)
        noise = rng.numpy.normal(0.0, 0.1, _WIDTH).astype(numpy.float32)
        return {**sample, "x": sample["x"] + noise}


def make_model() -> nn.Module:
    """Return a model (B, 16) to (B,) whose forward pass draws and counts."""
    return nn.Sequential(
        nn.Linear(_WIDTH, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1)
    )


def squared(model: nn.Module, batch: Any) -> tuple[torch.Tensor, int]:
    """Return the sum of squared errors and the number of rows."""
    error = model(batch["x"]).squeeze(1) - batch["y"]
    return (error**2).sum(), len(error)


def sgd(parameters: Any) -> torch.optim.Optimizer:
    """Return the optimizer."""
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9)


def warm_up(optimizer: torch.optim.Optimizer) -> Any:
    """Return the schedule."""
    return torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=30)


def job(
    samples: int = 300, executor: str = "thread", workers: int = 2, sleep_ms: float = 6.0
) -> Pipeline:
    """Return the job.

    Args:
        samples: in an epoch.
        executor: of the stage that takes time.
        workers: that run it.
        sleep_ms: what it takes, in ms.
    """
    chosen: Any = executor
    task = Task(model=make_model, loss=squared, optimizer=sgd, schedule=warm_up)
    return Pipeline(
        "faults",
        Rows(samples),
        Noise(sleep_ms, executor=chosen, num_workers=workers),
        collate.Stack(8),
        step.Train(task),
        epochs=3,
        seed=11,
        memory=[memory.Accumulate(2)],
        save_every_steps=6,
        save_every_minutes=None,
    )
