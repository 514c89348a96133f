"""From chunks of samples to batches on their way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.engine.course import Share
from stoker.engine.gathering import Gathering
from stoker.engine.jobs import BatchJob, Chunk
from stoker.engine.ledger import Ledger
from stoker.engine.section import Section
from stoker.errors import RunError
from stoker.stages import Gather

if TYPE_CHECKING:
    from stoker.engine.flow import Flow


class Batching:
    """Takes chunks up in order and starts batches. The flow holds the lock around every call.

    Args:
        flow: whose batches they are.
        gather: decides which samples make a batch.
        section: that the batches go through.
        first: number of the first one.
        share: of this rank, whose batches are blocks of positions; None for one rank.
    """

    def __init__(
        self, flow: Flow, gather: Gather, section: Section, first: int, share: Share | None
    ) -> None:
        self.gathering = Gathering(gather)
        self.epoch = -1
        """Of the samples that wait."""
        self._flow, self._section, self._share = flow, section, share
        self._number = first

    def take_up(self, chunk: Chunk) -> None:
        """Take a chunk's samples up and send the batches that they complete on their way."""
        self.epoch = chunk.epoch
        self.gathering.add(chunk)  # its bytes stay accounted for until a batch takes them over
        self._flow.count(chunk)
        if chunk.ends_epoch:
            self.flush()
        elif self._share is None:
            self._make(more=True)
        elif chunk.leg.ends_block and chunk.error is None:
            self._make_block(chunk)
        if chunk.ends_epoch or chunk.error is not None:
            mark = BatchJob(self._flow, self._section.started, chunk.epoch, self._number, [])
            mark.ends_epoch, mark.error = chunk.ends_epoch, chunk.error
            mark.places = [n for start, stop in chunk.missing() for n in range(start, stop)]
            self._section.admit(mark)
            self._section.finish(mark)
        if chunk.ends_epoch:
            self._number = 0

    def flush(self) -> None:
        """Make the last batches of the epoch and drop what is left."""
        if self._share is None:
            self._make(more=False)
        self._drop_tail()

    @property
    def _ledger(self) -> Ledger:
        return self._flow.ledger_of(self.epoch)

    def _make(self, more: bool) -> None:
        for samples, places, size in self.gathering.batches(more):
            started = self._section.started
            job = BatchJob(self._flow, started, self.epoch, self._number, samples, places)
            self._number += 1
            job.nbytes = size
            self._section.start(job)

    def _drop_tail(self) -> None:
        self._flow.bytes -= int(self.gathering.nbytes)
        self._ledger.dropped_tail += self.gathering.drop_all()

    def _make_block(self, chunk: Chunk) -> None:
        """Make the batch of a block, whatever is left of it: ranks stay aligned."""
        number = chunk.leg.block
        assert number is not None
        if chunk.incomplete:  # the stream ended before all ranks had a batch of this round
            self._drop_tail()
            return
        samples, places, size = self.gathering.take_all()
        job = BatchJob(self._flow, self._section.started, self.epoch, number, samples, places)
        job.nbytes, job.padding = size, chunk.leg.padding
        if samples:
            self._section.start(job)
            return
        job.error = RunError(
            f"all samples of batch {number} of epoch {chunk.epoch} were left out, so that this "
            "rank has none where the others have one; use bigger batches or one rank, or see "
            "what fails or filters them"
        )
        self._section.admit(job)
        self._section.finish(job)
