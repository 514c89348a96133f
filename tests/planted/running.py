"""Runs a planted job: simulated workers and consumer around the engine's own flow.

The flow decides what moves when, so that windows, order, chunk sizes and the kind of
a wait are those of the real thing; so are the meters.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

from stoker.engine import segment as engine
from stoker.engine.failures import Failures
from stoker.engine.flow import Flow
from stoker.engine.jobs import BatchJob, Chunk
from stoker.engine.jobs import Job as Handover
from stoker.engine.ledger import Ledger
from stoker.engine.pace import Limits
from stoker.engine.workers import WorkerState
from stoker.measure.meter import Gauge, Meter, Totals, WaitMeter
from stoker.measure.snapshot import SegmentCounters, Snapshot, StageFacts
from stoker.rng import Rng
from stoker.stages import Gather, PooledStage, Source
from tests.planted.demands import Op, perform
from tests.planted.machine import Machine
from tests.planted.parts import Segment
from tests.planted.threads import Demand, Process, Thread

if TYPE_CHECKING:
    from tests.planted.job import Job


@dataclass(frozen=True)
class Order(Source):
    """The source as the flow knows it: it gives the order."""

    name: ClassVar[str] = "planted.source"
    samples: int = 0

    def addresses(self, epoch: int, rng: Rng) -> Sequence[int]:
        """Return the samples in order."""
        return range(self.samples)


@dataclass(frozen=True)
class Grouping(Gather):
    """The collate stage as the flow knows it: it says what makes a batch."""

    name: ClassVar[str] = "planted.collate"
    batch_size: int = 1

    def group(self, sizes: Sequence[Any], more: bool) -> Sequence[Sequence[int]]:
        """Return full batches, front to back."""
        size = self.batch_size
        return [range(i, i + size) for i in range(0, len(sizes) - size + 1, size)]


class Workers(engine.Segment):
    """A segment of the engine whose workers are simulated threads."""

    def __init__(self, index: int, part: Segment, run: Run) -> None:
        named = [(stage.name, cast("PooledStage", None)) for stage in part.stages]
        failures = Failures("raise")
        super().__init__(index, named, (), "thread", part.workers, failures, run.seed)
        self.part, self._run, self._machine = part, run, run.machine
        self.fill = Gauge(self._machine.now_ns)
        self.threads = [Thread(run.process) for _ in self.workers]
        self._jobs: deque[Handover] = deque()
        self._idle: deque[Thread] = deque()

    def start(self) -> None:
        """Start the simulated workers."""
        for state, thread in zip(self.workers, self.threads, strict=True):
            self._machine.start(thread, self._program(state, thread))

    def put(self, job: Handover) -> None:
        """Queue a job for this segment."""
        job.segment = self
        self.fill.change(1, self._machine.now_ns)
        self._jobs.append(job)
        if self._idle:
            self._machine.wake(self._idle.popleft())

    def counters(self, now_ns: int) -> SegmentCounters:
        """Return the sum of the workers' counters."""
        for state, thread in zip(self.workers, self.threads, strict=True):
            state.runqueue_ns = thread.runqueue_ns
        return super().counters(now_ns)

    def _program(self, state: WorkerState, thread: Thread) -> Iterator[Demand]:
        machine, run = self._machine, self._run
        while True:
            yield from self._wait(state.waits, thread)
            job = self._jobs.popleft()
            self.fill.change(-1, machine.now_ns)
            for stage in self.part.stages:
                wall_ns, cpu_ns, thread.place = machine.now_ns, thread.cpu_ns, stage.name
                items = job.asked if isinstance(job, Chunk) else cast("BatchJob", job).count
                for _ in range(items if isinstance(job, Chunk) else 1):
                    yield from perform(stage.ops, run.process, run.draw)
                spent, thread.place = machine.now_ns - wall_ns, ""
                size = items * run.job.sample_bytes
                state.meters[stage.name].add(items, items, spent, thread.cpu_ns - cpu_ns, size)
                job.work_ns += spent
                run.fill(job)
            yield Demand("py", run.hop_ns)
            job.flow.advance(job)

    def _wait(self, waits: WaitMeter, thread: Thread) -> Iterator[Demand]:
        if self._jobs:
            return
        waits.waits_for_output = self.waits_for_output(self)
        waits.since_ns = self._machine.now_ns
        while not self._jobs:
            self._idle.append(thread)
            yield Demand("idle")
        waits.end(self._machine.now_ns)


class Mailbox:
    """What the consumer listens to."""

    def __init__(self, machine: Machine) -> None:
        self.ready = Gauge(machine.now_ns)
        self._machine, self._jobs = machine, deque[Handover]()
        self.listener: Thread | None = None
        """The consumer, while it waits."""

    def put(self, job: Handover) -> None:
        """Queue a job for the consumer."""
        self._jobs.append(job)
        self.ready.change(1, self._machine.now_ns)
        if self.listener is not None:
            self._machine.wake(self.listener)
            self.listener = None

    def get(self, waits: WaitMeter, thread: Thread) -> Iterator[Demand]:
        """Wait until there is a job, then put it into `taken`."""
        if not self._jobs:
            waits.since_ns = self._machine.now_ns
            while not self._jobs:
                self.listener = thread
                yield Demand("idle")
            waits.end(self._machine.now_ns)
        self.ready.change(-1, self._machine.now_ns)
        self.taken = self._jobs.popleft()


class Run:
    """A job at work in virtual time, from its cold start.

    Args:
        job: what runs.
        seed: of the durations of all operations.
    """

    def __init__(self, job: Job, seed: int = 0) -> None:
        self.job, self.seed, self.draw = job, seed, random.Random(seed)
        self.machine = Machine(job.cores)
        self.process = Process()
        self.hop_ns = round(job.hop_ms * 1e6)
        parts = [*job.segments, job.batch.segment]
        self.segments = [Workers(index, part, self) for index, part in enumerate(parts)]
        self.consumer = Thread(self.process)
        self.meter, self.waits = Meter(), WaitMeter()
        self.mailbox = Mailbox(self.machine)
        self.delivered: list[int] = []
        """Numbers of the samples that the consumer got, in the order in which it got them."""
        self.over = False
        self.neighbours = [Process() for _ in job.others]
        self._sample = bytes(job.sample_bytes)
        self.flow = self._make_flow()

    def _make_flow(self) -> Flow:
        job, samples = self.job, self.segments[:-1]
        threads = sum(len(segment.workers) for segment in samples)
        source = job.segments[0].stages[0].name, Order(samples=job.samples)
        flow = Flow(
            source,
            Grouping(batch_size=job.batch.size),
            samples,
            self.segments[-1:],
            Limits(job.prefetch_bytes, job.prefetch_batches, threads),
            True,
            self.seed,
            (0, 1),
        )
        flow.mailbox = cast("engine.Mailbox", self.mailbox)
        for segment in self.segments:
            segment.waits_for_output = flow.waits_for_output
        return flow

    def start(self) -> None:
        """Start all threads."""
        for segment in self.segments:
            segment.start()
        self.machine.start(self.consumer, self._consume())
        self._start_neighbours()
        self.flow.begin()

    def start_step(self) -> None:
        """Start the consumer alone, who takes the same batch over and over."""
        self.machine.start(self.consumer, self._repeat_step())
        self._start_neighbours()

    def _start_neighbours(self) -> None:
        for process, ops in zip(self.neighbours, self.job.others, strict=True):
            self.machine.start(Thread(process), self._neighbour(process, ops))

    def fill(self, job: Handover) -> None:
        """Let a job hold what a stage made of it."""
        if isinstance(job, Chunk):
            if not job.samples:
                job.samples = [{"number": i, "data": self._sample} for i in job.addresses]
        elif isinstance(job, BatchJob):
            job.measured = job.count * self.job.sample_bytes

    def _consume(self) -> Iterator[Demand]:
        thread = self.consumer
        while not self.over:
            yield from self.mailbox.get(self.waits, thread)
            job = self.mailbox.taken
            self.flow.take(job)
            self.over = job.ends_epoch
            if isinstance(job, BatchJob) and job.count:
                self.flow.ledger_of(0).delivered += job.count
                self.delivered += [sample["number"] for sample in job.samples]
                yield from self._step(job.count)
            yield Demand("py", self.hop_ns)

    def _repeat_step(self) -> Iterator[Demand]:
        while True:
            yield from self._step(self.job.batch.size)

    def _step(self, items: int) -> Iterator[Demand]:
        wall_ns, cpu_ns = self.machine.now_ns, self.consumer.cpu_ns
        self.consumer.place = self.job.step.name
        yield from perform(self.job.step.ops, self.process, self.draw)
        self.consumer.place = ""
        spent, on_core = self.machine.now_ns - wall_ns, self.consumer.cpu_ns - cpu_ns
        self.meter.add(items, items, spent, on_core, 0)

    def _neighbour(self, process: Process, ops: Sequence[Op]) -> Iterator[Demand]:
        while True:
            yield from perform(ops, process, self.draw)

    # -- counters ----------------------------------------------------------------

    @property
    def facts(self) -> list[StageFacts]:
        """What is fixed about each stage, the step last."""
        facts = [
            StageFacts(stage.name, stage.kind, segment.index, "thread", len(segment.workers))
            for segment in self.segments
            for stage in segment.part.stages
        ]
        step = self.job.step.name
        return [*facts, StageFacts(step, "step", len(self.segments), "inline", 1)]

    @property
    def ledger(self) -> Ledger:
        """The fates of all samples so far."""
        total = Ledger()
        total.add(self.flow.ledger)
        source = self.facts[0].name
        total.read = sum(state.meters[source].items_in for state in self.segments[0].workers)
        return total

    def snapshot(self) -> Snapshot:
        """Return all counters as they stand now."""
        now_ns = self.machine.now_ns
        stages = {
            stage.name: Totals.of([state.meters[stage.name] for state in segment.workers])
            for segment in self.segments
            for stage in segment.part.stages
        }
        stages[self.job.step.name] = Totals.of([self.meter])
        sums = {segment.index: segment.counters(now_ns) for segment in self.segments}
        waited_ns, _ = self.waits.read(now_ns)
        sums[len(self.segments)] = SegmentCounters(waited_ns, 0, self.consumer.runqueue_ns)
        return Snapshot(
            now_ns,
            self.process.cpu_ns,
            stages,
            sums,
            self.mailbox.ready.area(now_ns),
            self.flow.bytes,
            self.flow.peak_bytes,
        )
