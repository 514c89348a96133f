"""Gradient accumulation: one update for several batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stoker.parameters import param
from stoker.policy import Memory


@dataclass(frozen=True)
class Accumulate(Memory):
    """Gathers the gradients of several batches into one update.

    The update is that of one batch as large as all of them: divided by the valid items of
    the whole window, also where an epoch ends with fewer batches.

    Args:
        gradient_accumulation_steps: batches that one update gathers.
    """

    name: ClassVar[str] = "memory.accumulate"
    example: ClassVar[str] = "memory.Accumulate(gradient_accumulation_steps=4)"

    gradient_accumulation_steps: int = param(help="batches that one update gathers", minimum=1)

    @property
    def batches_per_update(self) -> int:
        """Batches that one update gathers."""
        return self.gradient_accumulation_steps
