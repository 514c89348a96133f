"""The front of a flow: which positions of which epoch are started next."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.engine.course import Course, Leg, Share, Span
from stoker.engine.standing import Standing
from stoker.rng import Rng
from stoker.sample import Address
from stoker.stages import Source, StreamSource


class Front:
    """Goes through the positions of epochs [first, last).

    Args:
        source: where samples come from, with its unique name.
        seed: of the run.
        epochs: first epoch, and the one after the last.
        begin: where in the first epoch to go on, or None for its start.
        share: this rank's share of the positions, None where there is only one rank.
    """

    def __init__(
        self,
        source: tuple[str, Source | StreamSource],
        seed: int,
        epochs: tuple[int, int],
        begin: Standing | None,
        share: Share | None,
    ) -> None:
        name, self._source = source
        self._rng = Rng(seed, name)
        self.epoch, self._end = epochs
        """The epoch that samples are started of."""
        self.begin, self.share = begin, share
        self.order: Sequence[Address] = ()
        """All addresses of the epoch (empty for streams)."""
        self.is_open = False
        self.exhausted = False
        """All of the epoch was started."""
        self._course = Course()
        self._closed_at: dict[int, int] = {}
        self._samples: dict[int, int] = {}

    def begin_of(self, epoch: int) -> Standing | None:
        """Return where in an epoch it was gone on, None for those that begin at their start."""
        return self.begin if self.begin is not None and self.begin.epoch == epoch else None

    def open_epoch(self) -> None:
        """Get the epoch's order."""
        self.is_open, self.exhausted = True, False
        self.order, samples = (), None
        if isinstance(self._source, Source):
            self.order = self._source.addresses(self.epoch, self._rng.move(self.epoch, 0))
            samples = self._samples[self.epoch] = len(self.order)
        begin = self.begin_of(self.epoch) or Standing()
        self._course = Course(begin.waiting, begin.position, samples, self.share)

    def take(self, most: int) -> Leg | None:
        """Return the next positions, at most so many, and pass them; None at the end."""
        leg = self._course.take(most)
        self.exhausted = leg is None or self._course.over
        return leg

    @property
    def left(self) -> int | None:
        """How many positions of the epoch are still to start, None where only reading tells."""
        return self._course.left

    def close_epoch(self) -> bool:
        """Go to the next epoch; return whether there is none."""
        self._closed_at[self.epoch] = self._course.at
        self.is_open = False
        self.epoch += 1
        return self.epoch >= self._end

    def samples_of(self, epoch: int) -> int | None:
        """Return the samples of an epoch that was opened, None where only reading tells."""
        return self._samples.get(epoch)

    def ahead(self, epoch: int) -> tuple[list[Span], int]:
        """Return what of an epoch was not started: some spans, and all from a position on."""
        begin = self.begin_of(epoch)
        if epoch != self.epoch:
            return [], self._closed_at.get(epoch, 0)
        if self.is_open:
            return self._course.rest()
        return ([], 0) if begin is None else (list(begin.waiting), begin.position)
