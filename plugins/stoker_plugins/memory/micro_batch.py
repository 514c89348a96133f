"""Micro-batches: a batch in pieces that fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stoker.parameters import param
from stoker.policy import Memory


@dataclass(frozen=True)
class MicroBatch(Memory):
    """Runs each batch in pieces: activations of one piece at a time, the update of the whole.

    Layers that look across the batch (BatchNorm) see a piece at a time.

    Args:
        micro_batch: samples in a piece; the last one of a batch may be smaller.
    """

    name: ClassVar[str] = "memory.micro_batch"
    example: ClassVar[str] = "memory.MicroBatch(16)"

    micro_batch: int = param(help="samples in a piece of a batch", minimum=1)

    @property
    def micro_batch_size(self) -> int:
        """Samples in each piece that a batch is split into."""
        return self.micro_batch
