"""Policies: what precision and memory plugins implement.

A policy is a frozen dataclass, like a stage. What it needs while a run lasts
(a loss scale) lives in the session that it opens. Policies are composed once,
at start, in a fixed order: wrap, compile, place. Nothing is looked up per step.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from stoker.stages import undefined

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Policy:
    """What both families share."""

    name: ClassVar[str] = ""
    """`precision.bf16`, `memory.accumulate`: the address on the command line."""
    example: ClassVar[str] = ""

    def check(self, device: str) -> Iterable[str]:
        """Yield what is wrong with this policy on a torch device type, before anything starts."""
        return ()


class PrecisionSession:
    """A precision at work on one model. The base class is plain fp32."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context that forward passes run in."""
        return nullcontext()

    def backward(self, loss: torch.Tensor) -> None:
        """Run the backward pass; a loss scale is applied here."""
        loss.backward()  # type: ignore[no-untyped-call]

    def unscale(self, optimizer: torch.optim.Optimizer) -> None:
        """Take the loss scale off the gradients: once a window, before they are read."""

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        """Update the parameters; return False where the update was skipped."""
        optimizer.step()
        return True

    def facts(self) -> dict[str, Any]:
        """Return this step's record, such as the compute dtype in effect and the scale."""
        return {"compute_dtype": "float32"}

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint must hold; the names are the same at any time."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a checkpoint's state, whose names were seen to be those of `state_dict`."""


@dataclass(frozen=True)
class Precision(Policy):
    """Which numbers the step computes in. Exactly one applies."""

    def open(self, model: torch.nn.Module, device: torch.device) -> PrecisionSession:
        """Make the session for one model.

        Raises `PrecisionError` where the precision would not take effect here.
        """
        raise undefined(self, "open")


@dataclass(frozen=True)
class Memory(Policy):
    """How the step trades time for memory. Any number apply."""

    def wrap(self, model: torch.nn.Module) -> torch.nn.Module:
        """Return the model with this policy in it (checkpointing, offload). Default: unchanged."""
        return model

    @property
    def micro_batch_size(self) -> int | None:
        """Samples in each piece that a batch is split into, or None where it stays whole."""
        return None

    @property
    def batches_per_update(self) -> int:
        """Batches that one update gathers."""
        return 1
