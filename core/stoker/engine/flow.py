"""One pass over the data: what is in flight, in which order it comes out, how much there may be.

A flow has two sections. Chunks of samples go through the sample segments; the
gather takes them up in order and makes batches, which go through the batch
segments to the consumer. Without a gather the chunks go to the consumer.

Nothing in a flow blocks but the consumer, who waits at its mailbox. Each section
is bounded by a window: a chunk starts only when an earlier one has left. Whoever
finishes a job moves everything on that can move (`advance`), so no thread of its
own is needed to schedule. So buffers are bounded and ordered by construction.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from queue import SimpleQueue
from time import perf_counter_ns

from stoker.engine.gathering import Gathering
from stoker.engine.jobs import BatchJob, Chunk, Job
from stoker.engine.ledger import Ledger
from stoker.engine.pace import Pace
from stoker.engine.section import Section
from stoker.engine.segment import Mailbox, Segment
from stoker.measure.meter import Gauge
from stoker.rng import Rng
from stoker.sample import Address, nbytes
from stoker.stages import Gather, Source, StreamSource

# Samples in flight at least, so that one slow sample does not stop the others at once.
MIN_WINDOW = 64


@dataclass(frozen=True)
class Limits:
    """How much a flow may hold."""

    prefetch_bytes: int
    prefetch_batches: int
    workers: int
    """Threads that work on samples; 0 when the consumer does it all."""


class Flow:
    """Epochs [first, last) on their way through the segments.

    Args:
        source: where samples come from, with its unique name.
        gather: makes the batches, or None for a stream of samples.
        samples: segments of the sample section, in order (at least one).
        batches: segments of the batch section, in order.
        limits: how much may be in flight.
        in_order: deliver by position.
        seed: of the run.
        epochs: first epoch, and the one after the last.
    """

    def __init__(
        self,
        source: tuple[str, Source | StreamSource],
        gather: Gather | None,
        samples: Sequence[Segment],
        batches: Sequence[Segment],
        limits: Limits,
        in_order: bool,
        seed: int,
        epochs: tuple[int, int],
    ) -> None:
        self.cancelled = False
        self.ledger = Ledger()
        """Fates so far. `read` is counted by the read stage's own meters."""
        self.mailbox: Mailbox = SimpleQueue()
        self.ready = Gauge(perf_counter_ns())
        """Finished jobs that wait for the consumer."""
        self.bytes = self.peak_bytes = 0
        """Bytes in flight, and the most there ever were."""
        name, self._source = source
        self._gathering = Gathering(gather) if gather is not None else None
        self._limits, self._in_order = limits, in_order
        self._rng = Rng(seed, name)
        self._lock = threading.Lock()
        self._chunks = Section(samples, in_order)
        self._batches = Section(batches, in_order)
        for section in (self._chunks, self._batches):
            for one, following in pairwise([*section.segments, None]):
                assert one is not None
                one.next = following
        self._pace = Pace(limits.workers, limits.prefetch_bytes)
        # The epoch that chunks are started of, and how far that has come.
        self._epoch, self._end_epoch = epochs
        self._order: Sequence[Address] = ()
        self._at = 0
        self._open = False
        self._exhausted = False
        self._flushed = False
        self._over = False
        """Nothing more is started: all epochs were, or an error ends the flow."""
        self._batch_number = 0
        self._blind = 0
        """Chunks in flight that were started before any size was known."""

    # -- the consumer's side -------------------------------------------------------

    def begin(self) -> None:
        """Start the first chunks."""
        with self._lock:
            self._pump()

    def take(self, job: Job) -> None:
        """Account for a finished job that the consumer took from the mailbox."""
        with self._lock:
            self.ready.change(-1, perf_counter_ns())
            self.bytes -= job.nbytes
            self.ledger.add(job.tally)
            (self._batches if isinstance(job, BatchJob) else self._chunks).leave(job)
            self._pump()

    def cancel(self) -> None:
        """Let workers skip what is in flight. Threads may still be busy with it."""
        self.cancelled = True

    def settle(self) -> None:
        """Account for what is left, once no worker touches it any more."""
        with self._lock:
            for job in [*self._chunks.live.values(), *self._batches.live.values()]:
                self.ledger.add(job.tally)
                self.ledger.unused += job.size
            self._chunks.live.clear()
            self._batches.live.clear()
            if self._gathering is not None:
                self.ledger.unused += self._gathering.drop_all()
            self.bytes = 0

    # -- the workers' side ---------------------------------------------------------

    def advance(self, job: Job) -> None:
        """Pass a job on: to its next segment, or out of its section. Called by any worker."""
        following = job.segment.next if job.segment is not None else None
        if following is not None and job.error is None and not self.cancelled:
            following.put(job)
            return
        job.segment = None
        measured = self._measure(job)
        with self._lock:
            self._account(measured - job.nbytes)
            job.nbytes = measured
            if job.error is not None:
                self._over = True
            if isinstance(job, Chunk):
                self._blind -= job.blind
                self._chunks.finish(job)
                self._pace.learn(job, len(self._order) - self._at if len(self._order) else None)
            else:
                self._batches.finish(job)
            self._pump()

    def stream_ended(self, epoch: int) -> None:
        """Hear from the reader that an epoch's stream is over."""
        with self._lock:
            if epoch == self._epoch:
                self._exhausted = True

    def waits_for_output(self, segment: Segment) -> bool:
        """Whether an idle segment waits for what lies after it, not for input."""
        if segment in self._batches.segments:
            return len(self._batches.live) >= self._limits.prefetch_batches
        if self._over:
            return False
        upstream = self._chunks.segments[: self._chunks.segments.index(segment)]
        return not any(other.active for other in upstream)

    def _measure(self, job: Job) -> int:
        """Return a finished job's real size; for chunks also learn what the gather asks."""
        if not isinstance(job, Chunk):
            return job.measured
        if self._gathering is not None:
            self._gathering.measure(job)
        return sum(map(nbytes, job.samples)) if self._limits.workers else 0

    # -- moving on (all under the lock) --------------------------------------------

    def _pump(self) -> None:
        """Move everything on that can move: finished jobs out, new chunks in."""
        if self.cancelled:
            return
        self._move_out()
        while self._dispatch():
            self._move_out()

    def _move_out(self) -> None:
        """Deliver finished batches, and gather up finished chunks while there is room."""
        self._deliver(self._batches)
        if self._gathering is None:
            self._deliver(self._chunks)
            return
        while len(self._batches.live) < self._limits.prefetch_batches:
            done = self._chunks.take_finished(1)
            if not done:
                break
            assert isinstance(done[0], Chunk)
            self._gather_up(done[0], self._gathering)
        self._deliver(self._batches)

    def _deliver(self, section: Section) -> None:
        for job in section.take_finished():
            self.ready.change(1, perf_counter_ns())
            self.mailbox.put(job)

    def _dispatch(self) -> bool:
        """Start chunks while there is room; return whether an epoch was closed by it."""
        while not self._over and self._room():
            if not self._open:
                self._open_epoch()
            if self._exhausted:
                return self._close_epoch()
            count = self._pace.chunk_size
            if isinstance(self._source, Source):
                count = min(count, len(self._order) - self._at)
                self._exhausted = self._at + count >= len(self._order)
            if count:
                chunk = Chunk(self, self._chunks.started, self._epoch, self._order, self._at, count)
                self._at += count
                chunk.nbytes = int(self._pace.bytes_per_sample * count)
                chunk.blind = chunk.nbytes == 0
                self._blind += chunk.blind
                self._account(chunk.nbytes)
                self._chunks.start(chunk)
        return False

    def _room(self) -> bool:
        """Whether one more chunk may start."""
        live = len(self._chunks.live)
        if live == 0:
            return True
        if self._limits.workers == 0:
            return False  # the consumer does it all: one chunk at a time
        pace = self._pace
        if self._blind:
            return live < self._limits.workers  # until the sizes in flight are known
        window = max(4 * self._limits.workers, MIN_WINDOW // pace.chunk_size)
        coming = pace.bytes_per_sample * pace.chunk_size
        return live < window and self.bytes + coming <= self._limits.prefetch_bytes

    def _account(self, nbytes: int) -> None:
        self.bytes += nbytes
        self.peak_bytes = max(self.peak_bytes, self.bytes)

    # -- epochs --------------------------------------------------------------------

    def _open_epoch(self) -> None:
        self._open, self._exhausted, self._flushed = True, False, False
        self._order, self._at = (), 0
        if isinstance(self._source, Source):
            self._order = self._source.addresses(self._epoch, self._rng.move(self._epoch, 0))

    def _close_epoch(self) -> bool:
        """Set the mark behind an epoch's last chunk; return False where it has to wait.

        In order the mark travels behind the last chunk, and the next epoch starts at
        once. Out of order it would be overtaken, so it waits until all else has left.
        """
        if not self._in_order:
            if self._chunks.live:
                return False
            if self._gathering is not None and not self._flushed:
                self._make_batches(self._gathering, self._epoch, more=False)
                self._flushed = True
            if self._batches.live:
                return False
        mark = Chunk(self, self._chunks.started, self._epoch, (), 0, 0)
        mark.ends_epoch = True
        self._chunks.admit(mark)
        self._chunks.finish(mark)
        self._open = False
        self._epoch += 1
        self._over = self._epoch >= self._end_epoch
        return True

    # -- gathering -----------------------------------------------------------------

    def _gather_up(self, chunk: Chunk, gathering: Gathering) -> None:
        """Take a chunk's samples up and send the batches that they complete on their way."""
        gathering.add(chunk)  # its bytes stay accounted for until a batch takes them over
        self.ledger.add(chunk.tally)
        self._chunks.leave(chunk)
        self._make_batches(gathering, chunk.epoch, more=not chunk.ends_epoch)
        if chunk.ends_epoch or chunk.error is not None:
            mark = BatchJob(self, self._batches.started, chunk.epoch, self._batch_number, [])
            mark.ends_epoch, mark.error = chunk.ends_epoch, chunk.error
            self._batches.admit(mark)
            self._batches.finish(mark)
        if chunk.ends_epoch:
            self._batch_number = 0

    def _make_batches(self, gathering: Gathering, epoch: int, more: bool) -> None:
        for samples, size in gathering.batches(more):
            job = BatchJob(self, self._batches.started, epoch, self._batch_number, samples)
            self._batch_number += 1
            job.nbytes = size
            self._batches.start(job)
        if not more:
            self.bytes -= int(gathering.nbytes)
            self.ledger.dropped_tail += gathering.drop_all()
