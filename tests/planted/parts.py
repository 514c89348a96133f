"""What a planted job consists of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.planted.demands import Op, device


@dataclass(frozen=True)
class Stage:
    """A stage, and what it asks of the machine for each sample (in `Batch`: for each batch)."""

    name: str
    kind: str
    ops: Sequence[Op]


@dataclass(frozen=True)
class Segment:
    """Stages that share worker threads."""

    stages: Sequence[Stage]
    workers: int = 1


@dataclass(frozen=True)
class Batch:
    """How samples are gathered, and the segment that makes batches of them.

    Args:
        size: samples in a batch.
        assemble: what the collate stage asks of the machine for each batch.
        after: further stages of its segment.
        workers: threads of its segment.
    """

    size: int = 32
    assemble: Sequence[Op] = ()
    after: Sequence[Stage] = ()
    workers: int = 1

    @property
    def segment(self) -> Segment:
        """The segment of the batch section."""
        return Segment([Stage("collate", "collate", self.assemble), *self.after], self.workers)


@dataclass(frozen=True)
class Step:
    """What the consumer does with each batch."""

    ops: Sequence[Op] = (device(1.0),)
    name: str = "step"
