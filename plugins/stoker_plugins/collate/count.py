"""Batches by count, which most collate stages make."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from stoker.parameters import param
from stoker.stages import Gather, Surroundings


@dataclass(frozen=True)
class ByCount(Gather):
    """Makes a batch of every `batch_size` samples, in order.

    What filters and quarantine took out is made up for by the samples that follow, so that
    only an epoch's last batch can be smaller. It is kept, left out (`drop_last`), or put with
    the one before it (`merge_last`), which then has up to 2 * batch_size - 1 samples.
    """

    batch_size: int = param(help="samples in a batch", minimum=1)
    # By keyword only, so that what a stage adds follows the batch size.
    drop_last: bool = dataclasses.field(
        default=False,
        kw_only=True,
        metadata={"help": "leave out the epoch's last batch where it is smaller"},
    )
    merge_last: bool = dataclasses.field(
        default=False,
        kw_only=True,
        metadata={"help": "put the epoch's last batch, where it is smaller, with the one before"},
    )

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield what is wrong with what becomes of the last batch."""
        if self.drop_last and self.merge_last:
            yield "drop_last=True and merge_last=True: the last batch is either left out or merged"

    def group(self, sizes: Sequence[Any], more: bool) -> Sequence[Sequence[int]]:
        """Return the full batches, front to back, and at the epoch's end what remains."""
        waiting, step = len(sizes), self.batch_size
        # To be merged with what is left, a full batch waits until the next one is full too.
        held = step if self.merge_last and more else 0
        full = max(waiting - held, 0) // step * step
        made = [range(start, start + step) for start in range(0, full, step)]
        if full < waiting and not more and not self.drop_last:
            if self.merge_last and made:
                made[-1] = range(made[-1].start, waiting)
            else:
                made.append(range(full, waiting))
        return made

    def batches(self, samples: int) -> int:
        """Return how many batches `samples` samples make."""
        full, rest = divmod(samples, self.batch_size)
        if self.merge_last:
            return max(full, min(rest, 1))
        return full + (rest > 0 and not self.drop_last)
