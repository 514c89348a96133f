"""A tiny regression task, in double precision so that gradients can be compared closely,
and policies that show what the step does with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import nn

from stoker.policy import Memory, Precision, PrecisionSession
from stoker.session import StepContext
from stoker.task import Task

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Plain(Precision):
    """Single precision, as it comes."""

    name: ClassVar[str] = "test.plain"

    def open(self, model: nn.Module, device: torch.device) -> PrecisionSession:
        return PrecisionSession(device)


@dataclass(frozen=True)
class Recording(Precision):
    """A loss scale of 1024 that writes down what is called, and skips the updates it is told to."""

    name: ClassVar[str] = "test.recording"
    calls: list[str] = field(default_factory=list)
    skips: tuple[int, ...] = ()

    def open(self, model: nn.Module, device: torch.device) -> PrecisionSession:
        return RecordingSession(device, self.calls, self.skips)


class RecordingSession(PrecisionSession):
    def __init__(self, device: torch.device, calls: list[str], skips: tuple[int, ...]) -> None:
        super().__init__(device)
        self.calls, self.skips, self.steps = calls, skips, 0

    def backward(self, loss: torch.Tensor) -> None:
        self.calls.append("backward")
        (loss * 1024).backward()

    def unscale(self, optimizer: torch.optim.Optimizer) -> None:
        self.calls.append("unscale")
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad /= 1024

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        self.calls.append("step")
        self.steps += 1
        return self.steps - 1 not in self.skips and super().step(optimizer)


@dataclass(frozen=True)
class Pieces(Memory):
    """Splits batches."""

    name: ClassVar[str] = "test.pieces"
    size: int = 1

    @property
    def micro_batch_size(self) -> int:
        return self.size


@dataclass(frozen=True)
class Several(Memory):
    """Gathers batches."""

    name: ClassVar[str] = "test.several"
    batches: int = 1

    @property
    def batches_per_update(self) -> int:
        return self.batches


def context(
    *memory: Memory, seed: int = 0, precision: Precision | None = None, model: Any = None
) -> StepContext:
    return StepContext(CPU, seed, precision or Plain(), memory, model)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).double()


def squared_error(model: Any, batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Sum over the items that the mask leaves, and their count."""
    errors = (model(batch["x"]) - batch["y"]).square().squeeze(1)
    return (errors * batch["valid"]).sum(), batch["valid"].sum()


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1)


def task(**changes: Any) -> Task:
    return Task(**{"model": mlp, "loss": squared_error, "optimizer": sgd, **changes})


def batch(valid: Sequence[int], seed: int = 0) -> dict[str, Any]:
    """A batch of as many samples as `valid` has marks: 1 counts, 0 is masked."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(len(valid), 4, generator=draw, dtype=torch.float64)
    y = x.sum(1, keepdim=True).sin()
    return {
        "__key__": [f"{seed}-{i}" for i in range(len(valid))],
        "x": x,
        "y": y,
        "valid": torch.tensor(valid),
    }


def joined(batches: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The batches as one."""
    keys = [key for each in batches for key in each["__key__"]]
    return {"__key__": keys} | {
        name: torch.cat([each[name] for each in batches]) for name in ("x", "y", "valid")
    }


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])
