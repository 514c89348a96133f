"""Batches by count, which most collate stages make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stoker.parameters import param
from stoker.stages import Gather


@dataclass(frozen=True)
class ByCount(Gather):
    """Makes a batch of every `batch_size` samples, in order."""

    batch_size: int = param(help="samples in a batch", minimum=1)
    drop_last: bool = param(False, "leave out the epoch's last batch where it is smaller")

    def group(self, sizes: Sequence[Any], more: bool) -> Sequence[Sequence[int]]:
        """Return the full batches, front to back, and at the epoch's end what remains."""
        waiting, step = len(sizes), self.batch_size
        full = waiting - waiting % step
        made = [range(start, start + step) for start in range(0, full, step)]
        if full < waiting and not more and not self.drop_last:
            made.append(range(full, waiting))
        return made

    def batches(self, samples: int) -> int:
        """Return how many batches `samples` samples make."""
        full, rest = divmod(samples, self.batch_size)
        return full + (rest > 0 and not self.drop_last)
