"""Which positions of an epoch a rank goes through, and which of them are still to come.

Positions count the samples of an epoch in the order in which the source gives them. A
rank alone goes through all of them. Of several ranks each takes every `world_size`-th
block of `size` positions, one block a batch: so all ranks are always equally far, and any
other number of ranks can go on where they stopped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

Span = tuple[int, int]
"""Positions [start, stop)."""
Place = int | tuple[int, int]
"""A sample's position, or position and part where stages made several samples of one."""


@dataclass(frozen=True)
class Share:
    """A rank's share of the blocks."""

    rank: int
    world_size: int
    size: int
    """Positions in a block: the batch size."""
    pads: bool
    """The last round is filled up with samples of the epoch's start; else it is left out."""

    def rounds(self, samples: int, first: int = 0) -> int:
        """Return how many blocks each rank gets of `samples`, from block `first` on."""
        blocks = -(-samples // self.size) if self.pads else samples // self.size
        left = max(blocks - first, 0)
        return -(-left // self.world_size) if self.pads else left // self.world_size

    def behind(self, batch: int, first: int) -> int:
        """Return the block behind the rounds that are done, when `batch` is the next number.

        Args:
            batch: one more than the block that was delivered last, or `first` if none was.
            first: the block that the rounds began with.
        """
        if batch <= first:
            return first
        done = (batch - 1 - self.rank - first) // self.world_size + 1
        return first + done * self.world_size


class Leg(NamedTuple):
    """The next positions to go through: neighbours."""

    first: int
    length: int
    block: int | None = None
    """The block they are in, where ranks share an epoch: its number is the batch's."""
    ends_block: bool = False
    round_end: int = 0
    """The first position behind the blocks of all ranks in this round."""
    padding: bool = False
    """They are of another block, and stand here so that all ranks get as many batches."""


@dataclass
class Course:
    """The positions of an epoch that are still to come, in order.

    Args:
        spans: those before `at`.
        at: from here on all are to come.
        samples: positions of the epoch, None where only reading tells.
        share: this rank's, None where there is only one.
    """

    spans: Iterable[Span] = ()
    at: int = 0
    samples: int | None = None
    share: Share | None = None
    _spans: deque[Span] = field(init=False)
    _block: int = field(init=False, default=0)
    _inside: int = field(init=False, default=0)
    left: int | None = field(init=False, default=None)
    """How many positions are still to come at most, None where only reading tells."""

    def __post_init__(self) -> None:
        self._spans = deque(self.spans)
        if self.share is not None:
            self._block = self.at // self.share.size + self.share.rank
            self._first = self.at // self.share.size
        if self.samples is None:
            return
        if self.share is None:
            waiting = sum(stop - start for start, stop in self._spans)
            self.left = waiting + max(self.samples - self.at, 0)
        else:
            self.left = self.share.rounds(self.samples, self._first) * self.share.size

    def take(self, most: int) -> Leg | None:
        """Return the next positions, at most so many, and pass them; None at the end."""
        leg = self._next(most)
        if leg is not None and self.left is not None:
            # The last block of a rank may be shorter.
            self.left = max(self.left - leg.length, 0)
        return leg

    def _next(self, most: int) -> Leg | None:
        if self._spans:
            start, stop = self._spans.popleft()
            count = min(most, stop - start)
            if start + count < stop:
                self._spans.appendleft((start + count, stop))
            return Leg(start, count)
        if self.share is not None:
            return self._of_block(most, self.share)
        count = most if self.samples is None else min(most, self.samples - self.at)
        if count <= 0:
            return None
        leg = Leg(self.at, count)
        self.at += count
        return leg

    def _of_block(self, most: int, share: Share) -> Leg | None:
        block, start = self._block, self._block * share.size
        stop, padding = start + share.size, False
        if self.samples is not None:
            done = (block - self._first) // share.world_size
            if done >= share.rounds(self.samples, self._first):
                return None
            if start >= self.samples:
                start, stop, padding = 0, min(share.size, self.samples), True
            else:
                stop = min(stop, self.samples)
        start += self._inside
        count = min(most, stop - start)
        ends = start + count >= stop
        round_end = (block - share.rank + share.world_size) * share.size
        if ends:
            self._block, self._inside = block + share.world_size, 0
        else:
            self._inside += count
        return Leg(start, count, block, ends, round_end, padding)

    @property
    def over(self) -> bool:
        """Nothing is to come any more."""
        if self.share is None or self.samples is None:
            return self.left == 0
        done = (self._block - self._first) // self.share.world_size
        return done >= self.share.rounds(self.samples, self._first)

    def rest(self) -> tuple[list[Span], int]:
        """Return the spans that are still to come, and from where on all is."""
        return list(self._spans), self.at


def spans_of(places: Sequence[Place]) -> tuple[list[Span], Sequence[Place]]:
    """Return places in order as spans, and those that have to be listed one by one."""
    if not places:
        return [], ()
    first, last = places[0], places[-1]
    # A batch of neighbours is the rule, and cheap to see: places are in order and never equal.
    if isinstance(first, int) and isinstance(last, int) and last - first == len(places) - 1:
        return [(first, last + 1)], ()
    return [], places


def neighbours(positions: Sequence[int]) -> list[Span]:
    """Return sorted positions, each there once, as spans of neighbours."""
    spans: list[Span] = []
    start = end = -1
    for position in positions:
        if position != end:
            if end >= 0:
                spans.append((start, end))
            start = position
        end = position + 1
    return [*spans, (start, end)] if end >= 0 else spans


def merged(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order, neighbours and overlaps joined."""
    joined: list[Span] = []
    for start, stop in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        elif stop > start:
            joined.append((start, stop))
    return joined
