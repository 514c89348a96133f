"""What the consumer received of the present epoch, and so where the loader stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from stoker.engine.course import Place, Span
from stoker.engine.flow import Flow
from stoker.engine.jobs import BatchJob, Chunk, Job
from stoker.engine.ledger import Ledger
from stoker.engine.standing import Pieces, Standing
from stoker.sample import PADDING


class Delivery:
    """Follows what is delivered. Used by the consumer's thread alone."""

    def __init__(self) -> None:
        self.epoch = 0
        """The epoch that the next iteration delivers, or the present one does."""
        self.mid_epoch = False
        self.before = Ledger()
        """Fates of flows that ended, and of whoever went before, whose state was loaded."""
        self.begin: Standing | None = None
        """Where the next flow goes on, if not at an epoch's start."""
        self._batch = 0
        self._held: Job | None = None
        """It left the flow and was not delivered, or not all of it."""
        self._given = 0
        self._counted = False
        """The samples given of it stand in the ledger."""
        self._left: Standing | None = None

    # -- what happens --------------------------------------------------------------

    def start(self) -> Standing | None:
        """A flow starts; return where it goes on."""
        begin, self.begin, self._left = self.begin, None, None
        self._batch = begin.batch if begin is not None else 0
        self._held = None
        return begin

    def receive(self, job: Job) -> None:
        """A job comes out of the flow: until it is handed over, it counts as not delivered."""
        self._held, self._given, self._counted = job, 0, False

    def batch(self, job: BatchJob, flow: Flow) -> None:
        """The consumer gets a batch."""
        self._batch, self._held = max(self._batch, job.number + 1), None
        ledger = flow.ledger_of(job.epoch)
        if not job.padding:
            ledger.delivered += job.count
            return
        ledger.padded += job.count
        if isinstance(job.batch, dict):
            job.batch[PADDING] = job.count

    def samples(self, chunk: Chunk, flow: Flow) -> Iterator[Any]:
        """Yield a chunk's samples to the consumer; those that are not taken are unused."""
        try:
            for self._given, sample in enumerate(chunk.samples, 1):
                yield sample
        finally:
            if self._held is chunk:
                self._count(chunk, flow)

    def epoch_ends(self) -> None:
        """All of the epoch was delivered."""
        self.mid_epoch, self._held = False, None
        self.epoch += 1
        self._batch = 0

    def leave(self, flow: Flow) -> None:
        """The flow ends before its time: remember where that was."""
        self._left = self._of(flow)()

    def _count(self, held: Job, flow: Flow) -> None:
        """Count what was given of a chunk, and the rest of it, or a whole batch, as unused."""
        if not self._counted:
            ledger = flow.ledger_of(held.epoch)
            ledger.delivered += self._given
            ledger.unused += held.size - self._given
            self._counted = True

    def settle(self, flow: Flow) -> None:
        """Account for a flow that ended."""
        if self._held is not None and not flow.has(self._held):
            self._count(self._held, flow)
        flow.settle()
        self.before.add(flow.ledger)

    # -- where that is -------------------------------------------------------------

    def go_to(self, epoch: int) -> None:
        """Let the next iteration be this epoch, from its start."""
        self.epoch, self.mid_epoch, self.begin, self._left = epoch, False, None, None

    def go_on(self, begin: Standing) -> None:
        """Let the next iteration go on where another loader stood.

        Its ledger takes the place of ours: a read that is not delivered here is read again.
        """
        self.epoch, self.mid_epoch, self.begin, self._left = begin.epoch, False, begin, None
        self.before = Ledger()
        self.before.add(begin.ledger)

    def bookmark(self, flow: Flow | None) -> Callable[[], Standing]:
        """Return what tells where the consumer stands now, also later on."""
        known = self.begin
        if known is None and self._left is not None and not self.mid_epoch:
            known = self._left if self._left.epoch == self.epoch else None
        if known is None and flow is None:
            known = Standing(self.epoch, ledger=_lasting(self.before))
        if known is not None:
            return lambda: known
        assert flow is not None
        return self._of(flow)

    def _of(self, flow: Flow) -> Callable[[], Standing]:
        held, spans, places = self._held, list[Span](), list[Place]()
        ledger = Ledger()
        ledger.add(self.before)
        if isinstance(held, BatchJob):
            places += held.places
        elif isinstance(held, Chunk):
            places += held.places()[self._given : len(held.samples)]
            spans += held.missing()
            ledger.delivered += 0 if self._counted else self._given
        return partial(_put_together, flow.pieces(self.epoch, self._batch, (spans, places), ledger))


def _put_together(pieces: Pieces) -> Standing:
    found = pieces.standing()
    return replace(found, ledger=_lasting(found.ledger))


def _lasting(ledger: Ledger) -> Ledger:
    """Return the fates that a state carries on: what was not delivered is read again."""
    kept = Ledger()
    kept.add(ledger)
    kept.unused = kept.failed = 0
    # Which of those under way were cached is not known; what is carried on has to balance.
    kept.cached = min(kept.cached, kept.fates - kept.expanded)
    kept.read = kept.fates - kept.expanded - kept.cached
    return kept
