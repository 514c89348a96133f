"""The loader: a planned pipeline at work, its step left out, for anybody's loop.

    with pipeline as loader:
        for batch in loader:
            ...

Each iteration is one epoch. The receiver owns what it receives.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter_ns
from types import TracebackType
from typing import Any

from stoker.engine import checks
from stoker.engine.assembly import make_flow, make_segments
from stoker.engine.consumer import Consumer
from stoker.engine.counters import counters, stage_facts
from stoker.engine.delivery import Delivery
from stoker.engine.failures import Failures
from stoker.engine.flow import Flow
from stoker.engine.jobs import BatchJob, Chunk, Job
from stoker.engine.ledger import Ledger
from stoker.engine.malloc import keep_freed_memory
from stoker.engine.plan import Plan, make_plan
from stoker.engine.segment import Segment
from stoker.engine.standing import fitting, identity, settled
from stoker.errors import UsageError
from stoker.measure.snapshot import Report, Snapshot, StageFacts, report_between
from stoker.pipeline import Pipeline

# What cooperates returns within this; what does not is named.
CLOSE_TIMEOUT_S = 5.0


class Loader:
    """A pipeline at work. Iterate it as often as there are epochs; close it when done.

    Args:
        pipeline: what to load, or its plan.
        quarantine: file for quarantined samples (JSON lines), or None to keep them in memory.

    Raises:
        PlanError: all that is wrong with the pipeline, at once.
    """

    def __init__(self, pipeline: Pipeline | Plan, *, quarantine: Path | None = None) -> None:
        self.plan = pipeline if isinstance(pipeline, Plan) else make_plan(pipeline)
        options = self.plan.pipeline.options
        self.failures = Failures(options.on_error, quarantine)
        self.segments = make_segments(self.plan, self.failures)
        self.consumer = Consumer()
        self._delivery = Delivery()
        self._flow: Flow | None = None
        self._closed = False
        self._flow_end = 0
        self._peak_bytes = 0
        self._started = False
        self._reads_before = 0
        """Samples that were read before a state was loaded: its ledger knows nothing of them."""
        self.reread = 0
        """Samples that a stream read again to find where it was to go on."""
        self._first: Snapshot | None = None
        # Threads hold no reference to the loader, so that losing it closes it.
        self._finalizer = weakref.finalize(self, _stop, self.segments, None)

    # -- iterating -----------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        flow = self._begin_epoch()
        consumer, delivery = self.consumer, self._delivery
        while True:
            job = self._next_job(flow)
            if job.ends_epoch:
                break
            if isinstance(job, BatchJob):
                if job.count:
                    delivery.batch(job, flow)
                    consumer.hand_over(job.count)
                    batch, job.batch = job.batch, None
                    yield batch
                    # The receiver owns the batch: nothing here keeps it alive.
                    del batch
                    consumer.come_back()
            else:
                assert isinstance(job, Chunk)
                consumer.hand_over(len(job.samples))
                yield from delivery.samples(job, flow)
                consumer.come_back()
            if job.error is not None:
                error = job.error
                del job
                self._abandon()
                raise error
        delivery.epoch_ends()
        if delivery.epoch >= self._flow_end:
            self._retire_flow()

    def _next_job(self, flow: Flow) -> Job:
        """Wait for the next finished job, working on inline segments meanwhile."""
        mailbox, waits = flow.mailbox, self.consumer.waits
        try:
            while True:
                if self._flow is not flow:
                    raise UsageError(
                        "this iteration was ended by a newer one, by set_epoch or by close; "
                        "a loader delivers one epoch at a time"
                    )
                if mailbox.empty():
                    waits.since_ns = perf_counter_ns()
                    job = mailbox.get()
                    waits.end(perf_counter_ns())
                else:
                    job = mailbox.get()
                segment = job.segment
                if segment is None:
                    self._delivery.receive(job)
                    flow.take(job)
                    return job
                segment.run_inline(job)
        except BaseException:
            # Ctrl-C, or a fault of ours: the flow is in an unknown state.
            waits.since_ns = 0
            if self._flow is flow:
                self._abandon()
            raise

    def _begin_epoch(self) -> Flow:
        if self._closed:
            raise UsageError("this loader is closed; make a new one (with pipeline as loader: ...)")
        delivery = self._delivery
        if delivery.mid_epoch:  # the last iteration was left: its epoch is over
            self._abandon()
            delivery.go_to(delivery.epoch + 1)
        if self._flow is None:
            self._start_flow()
        delivery.mid_epoch = True
        assert self._flow is not None
        return self._flow

    def _start_flow(self) -> None:
        # Known epochs follow one another without a pause; beyond them each starts by itself.
        epoch = self._delivery.epoch
        self._flow_end = max(self.plan.pipeline.options.epochs, epoch + 1)
        begin = self._delivery.start()
        self._flow = make_flow(self.plan, self.segments, (epoch, self._flow_end), begin)
        if not self._started:
            keep_freed_memory()
            for segment in self.segments:
                segment.start()
            self._first = self.snapshot()
            self._started = True
        self._flow.begin()

    def _abandon(self) -> None:
        """Leave the present flow: what is in flight is unused."""
        if self._flow is not None:
            self._delivery.leave(self._flow)
            self._flow.cancel()
            self._retire_flow()
        self._delivery.mid_epoch = False

    def _retire_flow(self) -> None:
        flow, self._flow = self._flow, None
        if flow is not None:
            for segment in self.segments:
                segment.finish_present_jobs(CLOSE_TIMEOUT_S)
            self._settle(flow)

    def _settle(self, flow: Flow) -> None:
        self._delivery.settle(flow)
        self.reread += flow.stream.reread
        self._peak_bytes = max(self._peak_bytes, flow.peak_bytes)

    # -- what it knows -------------------------------------------------------------

    def __len__(self) -> int:
        """Return the batches (without a gather: samples) of an epoch.

        Raises:
            TypeError: only reading tells, and why.
        """
        return checks.length(self.plan)

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration delivers, or the present one does."""
        return self._delivery.epoch

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration be this epoch. Without it, epochs advance by themselves.

        The epoch that is set already is left as it is, so that a loop may set it each time
        and still go on in the middle of one (`load_state_dict`).
        """
        if not self._delivery.mid_epoch and epoch == self._delivery.epoch:
            return
        self._abandon()
        self._delivery.go_to(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return where the consumer stands, JSON-able: to be asked between two batches.

        What was prefetched and not delivered is read again by whoever goes on from here. It is
        small: spans of positions, not samples. Nothing is stopped for it.
        """
        return self.bookmark()()

    def bookmark(self) -> Callable[[], dict[str, Any]]:
        """Return what gives the state of now, also later on: for whoever asks at every batch.

        Putting a state together takes longer where samples were filtered or became several.
        """
        plan, standing = self.plan, self._delivery.bookmark(self._flow)
        return lambda: {**identity(plan), **settled(plan, standing()).to_dict()}

    def load_state_dict(self, state: Any) -> None:
        """Let the next iteration go on where the loader of a state stood.

        Any number of workers and any executor do; and ranks, where batches are of one size.

        Raises:
            UsageError: it is no state, or one of other data, another seed or other ranks.
        """
        begin = fitting(self.plan, state)
        self._abandon()
        self._delivery.go_on(begin)
        self._reads_before = self._reads()
        self.failures.go_on(begin.ledger.quarantined)

    @property
    def ledger(self) -> Ledger:
        """The fates of all samples so far. It balances once no epoch is under way."""
        total = Ledger()
        total.add(self._delivery.before)
        if self._flow is not None:
            total.add(self._flow.ledger)
        total.read += self._reads() - self._reads_before
        return total

    def _reads(self) -> int:
        source, [first, *_] = self.plan.names[0], self.segments
        return sum(worker.meters[source].items_in for worker in first.workers)

    @property
    def flow(self) -> Flow | None:
        """The flow under way, for readers of its gauges."""
        return self._flow

    @property
    def facts(self) -> list[StageFacts]:
        """What is fixed about each stage, the consumer last."""
        return stage_facts(self.plan)

    def snapshot(self) -> Snapshot:
        """Return all counters as they stand now, to subtract from later ones."""
        flow = self._flow
        peak = max(self._peak_bytes, flow.peak_bytes if flow is not None else 0)
        return counters(self.segments, self.consumer, self.facts[-1], flow, peak)

    def report(self) -> Report:
        """Return what each stage did since the first iteration, with the consumer as the last."""
        now = self.snapshot()
        return self.report_between(self._first or now, now)

    def report_between(self, before: Snapshot, after: Snapshot) -> Report:
        """Return what each stage did between two snapshots."""
        name, ledger = self.plan.pipeline.name, self.ledger.to_dict()
        return report_between(name, self.facts, before, after, ledger)

    # -- the end -------------------------------------------------------------------

    def close(self) -> None:
        """Stop all workers. Can be called any number of times; returns within seconds."""
        if self._closed:
            return
        self._closed = True
        if self._flow is not None:
            self._delivery.leave(self._flow)
            self._flow.cancel()
        self._delivery.mid_epoch = False
        self._finalizer.detach()
        stuck = _stop(self.segments, CLOSE_TIMEOUT_S)
        flow, self._flow = self._flow, None
        if flow is not None:
            self._settle(flow)
        if stuck:
            warnings.warn(
                f"{len(stuck)} workers did not return within {CLOSE_TIMEOUT_S:g} s and are left "
                f"behind: {'; '.join(stuck)}. A stage of theirs blocks",
                RuntimeWarning,
                stacklevel=2,
            )

    def __enter__(self) -> Loader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _stop(segments: list[Segment], timeout_s: float | None) -> list[str]:
    """End all workers; return those that did not come back in time."""
    for segment in segments:
        segment.stop()
    if timeout_s is None:  # losing the last reference must not wait
        return []
    deadline_ns = perf_counter_ns() + int(timeout_s * 1e9)
    return [name for segment in segments for name in segment.join(deadline_ns)]
