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
from itertools import pairwise
from queue import SimpleQueue
from time import perf_counter_ns

from stoker.engine.batching import Batching
from stoker.engine.caching import Desk, cut_off
from stoker.engine.course import Leg, Place, Share, Span
from stoker.engine.front import Front
from stoker.engine.jobs import BatchJob, Chunk, Job
from stoker.engine.ledger import EpochLedgers, Ledger
from stoker.engine.pace import Limits, Pace
from stoker.engine.section import Section
from stoker.engine.segment import Mailbox, Segment
from stoker.engine.standing import Pieces, Standing
from stoker.engine.streams import StreamLog
from stoker.measure.meter import Gauge
from stoker.sample import nbytes
from stoker.stages import Gather, Source, StreamSource


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
        begin: where in the first epoch to go on, or None for its start.
        share: this rank's share of the positions, None where there is only one rank.
        desk: of the cache among the stages, None where there is none.
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
        begin: Standing | None = None,
        share: Share | None = None,
        desk: Desk | None = None,
    ) -> None:
        self.cancelled = False
        self._ledgers = EpochLedgers()
        self.mailbox: Mailbox = SimpleQueue()
        self.ready = Gauge(perf_counter_ns())
        """Finished jobs that wait for the consumer."""
        self.bytes = self.peak_bytes = 0
        """Bytes in flight, and the most there ever were."""
        self._limits, self._in_order = limits, in_order
        self._lock = threading.Lock()
        self._chunks = Section(samples, in_order)
        self._batches = Section(batches, in_order)
        for section in (self._chunks, self._batches):
            for one, following in pairwise([*section.segments, None]):
                assert one is not None
                one.next = following
        self._pace = Pace(limits)
        self._desk = desk
        self._front = Front(source, seed, epochs, begin, share)
        self.stream = StreamLog(begin)
        self._batching: Batching | None = None
        if gather is not None:
            first = begin.batch if begin is not None else 0
            self._batching = Batching(self, gather, self._batches, first, share)
        self._flushed = False
        self._over = False
        """Nothing more is started: all epochs were, or an error ends the flow."""
        self._blind = 0
        """Chunks in flight that were started before any size was known."""

    @property
    def ledger(self) -> Ledger:
        """Fates so far. `read` is counted by the read stage's own meters."""
        return self._ledgers.total()

    def ledger_of(self, epoch: int) -> Ledger:
        """Return the fates that samples of one epoch met so far."""
        return self._ledgers.of(epoch)

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
            self.count(job)
            (self._batches if isinstance(job, BatchJob) else self._chunks).leave(job)
            self._pump()

    def count(self, job: Job) -> None:
        """Take the fates that samples met in a job into the ledger. Under the lock."""
        self.ledger_of(job.epoch).add(job.tally)
        if isinstance(job, Chunk):
            self.stream.counted(job.epoch, job.lost)

    def pieces(
        self,
        epoch: int,
        batch: int,
        handed: tuple[Sequence[Span], Sequence[Place]],
        before: Ledger,
    ) -> Pieces:
        """Return where the consumer stands, who is in this epoch and gets this batch next.

        `handed` is what left the flow and was not delivered, `before` the fates of earlier flows.
        """
        with self._lock:
            ledger = self._ledgers.total(epoch)
            ledger.add(before)
            stream, front = self.stream.mark(epoch), self._front
            begin, samples = front.begin_of(epoch), front.samples_of(epoch)
            if front.share is not None:
                block = front.share.behind(batch, begin.batch if begin is not None else 0)
                at = block * front.share.size
                return Pieces(epoch, block, at, stream=stream, ledger=ledger, samples=samples)
            more, position = front.ahead(epoch)
            spans, held = self._under_way(epoch)
            spans += [*handed[0], *more]
            held.append(handed[1])
            parts = begin.parts if begin is not None else {}
            return Pieces(epoch, batch, position, spans, held, parts, stream, ledger, samples)

    def _under_way(self, epoch: int) -> tuple[list[Span], list[Sequence[Place]]]:
        """Return what of an epoch was started and has not left: spans, and places of samples."""
        held: list[Sequence[Place]] = [
            job.places
            for job in self._batches.live.values()
            if isinstance(job, BatchJob) and job.epoch == epoch
        ]
        if self._batching is not None and self._batching.epoch == epoch:
            held.append(list(self._batching.gathering.places))
        spans = [
            (chunk.leg.first, chunk.leg.first + chunk.leg.length)
            for chunk in self._chunks.live.values()
            if isinstance(chunk, Chunk) and chunk.epoch == epoch and not chunk.ends_epoch
        ]
        return spans, held

    def has(self, job: Job) -> bool:
        """Whether a job is still on its way to the consumer."""
        section = self._batches if isinstance(job, BatchJob) else self._chunks
        return section.live.get(job.index) is job

    def cancel(self) -> None:
        """Let workers skip what is in flight. Threads may still be busy with it."""
        self.cancelled = True

    def settle(self) -> None:
        """Account for what is left, once no worker touches it any more."""
        with self._lock:
            for job in [*self._chunks.live.values(), *self._batches.live.values()]:
                self.ledger_of(job.epoch).add(job.tally)
                self.ledger_of(job.epoch).unused += job.size
            self._chunks.live.clear()
            self._batches.live.clear()
            if self._batching is not None:
                batching = self._batching
                self.ledger_of(batching.epoch).unused += batching.gathering.drop_all()
            self.bytes = 0

    # -- the workers' side ---------------------------------------------------------

    def advance(self, job: Job) -> None:
        """Pass a job on: to its next segment, or out of its section. Called by any worker."""
        following = job.segment.next if job.segment is not None else None
        if following is not None and job.error is None and not self.cancelled:
            following.put(job)
            return
        if isinstance(job, Chunk):
            cut_off(job)
        begin = self._front.begin
        if begin is not None and begin.parts and isinstance(job, Chunk):
            job.leave_out(begin.parts if begin.epoch == job.epoch else {})
        measured = self._measure(job)
        job.segment = None
        with self._lock:
            self._account(measured - job.nbytes)
            job.nbytes = measured
            if job.error is not None:
                self._over = True
            if isinstance(job, Chunk):
                self._blind -= job.blind
                self._chunks.finish(job)
                self._pace.learn(job, self._front.left)
            else:
                self._batches.finish(job)
            self._pump()

    def stream_ended(self, epoch: int) -> None:
        """Hear from the reader that an epoch's stream is over."""
        with self._lock:
            if epoch == self._front.epoch:
                self._front.exhausted = True

    def hold(self, nbytes: int) -> None:
        """Account for bytes that a stage keeps (or lets go of: negative), such as a window."""
        with self._lock:
            self._account(nbytes)

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
        if self._batching is not None:
            self._batching.gathering.measure(job)
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
        if self._batching is None:
            self._deliver(self._chunks)
            return
        while len(self._batches.live) < self._limits.prefetch_batches:
            done = self._chunks.take_finished(1)
            if not done:
                break
            assert isinstance(done[0], Chunk)
            self._chunks.leave(done[0])
            self._batching.take_up(done[0])
        self._deliver(self._batches)

    def _deliver(self, section: Section) -> None:
        for job in section.take_finished():
            self.ready.change(1, perf_counter_ns())
            self.mailbox.put(job)

    def _dispatch(self) -> bool:
        """Start chunks while there is room; return whether an epoch was closed by it."""
        while not self._over and self._pace.allows(len(self._chunks.live), self._blind, self.bytes):
            if not self._front.is_open:
                self._front.open_epoch()
                self._flushed = False
            if self._front.exhausted:
                return self._close_epoch()
            leg = self._front.take(self._pace.chunk_size)
            if leg is not None:
                self._start(leg)
        return False

    def _start(self, leg: Leg) -> None:
        """Start a chunk of the next positions."""
        chunk = Chunk(self, self._chunks.started, self._front.epoch, self._front.order, leg)
        chunk.nbytes = int(self._pace.bytes_per_sample * leg.length)
        chunk.blind = chunk.nbytes == 0
        self._blind += chunk.blind
        self._account(chunk.nbytes)
        if self._desk is not None:
            self._desk.split(chunk)
        self._chunks.start(chunk)

    def _account(self, nbytes: int) -> None:
        self.bytes += nbytes
        self.peak_bytes = max(self.peak_bytes, self.bytes)

    # -- epochs --------------------------------------------------------------------

    def _close_epoch(self) -> bool:
        """Set the mark behind an epoch's last chunk; return False where it has to wait.

        In order the mark travels behind the last chunk, and the next epoch starts at
        once. Out of order it would be overtaken, so it waits until all else has left.
        """
        if not self._in_order:
            if self._chunks.live:
                return False
            if self._batching is not None and not self._flushed:
                self._batching.flush()
                self._flushed = True
            if self._batches.live:
                return False
        mark = Chunk(self, self._chunks.started, self._front.epoch, (), Leg(0, 0))
        mark.ends_epoch = True
        self._chunks.admit(mark)
        self._chunks.finish(mark)
        self._over = self._front.close_epoch()
        return True
