"""A segment: neighbouring stages that share workers, and the buffer before them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from queue import Empty, SimpleQueue
from time import perf_counter_ns, sleep, thread_time_ns
from typing import Any

from stoker.cache import Cache
from stoker.engine.caching import CacheRunner, Desk
from stoker.engine.failures import Failures
from stoker.engine.intraop import hold_to_one_thread
from stoker.engine.jobs import BatchJob, Chunk, Job
from stoker.engine.runners import (
    AssembleRunner,
    BatchRunner,
    ChunkRunner,
    ExpandRunner,
    MixRunner,
    ReadRunner,
)
from stoker.engine.streams import StreamRunner
from stoker.engine.workers import WorkerState
from stoker.errors import RunError, SampleError, StokerError, UsageError
from stoker.measure.meter import Gauge, Meter, WaitMeter
from stoker.measure.snapshot import SegmentCounters
from stoker.measure.threads import thread_time
from stoker.measure.whereabouts import NOWHERE
from stoker.stages import (
    BatchMap,
    Executor,
    Expand,
    Gather,
    Mix,
    PooledStage,
    Source,
    StreamSource,
    Worker,
)

Mailbox = SimpleQueue[Job]
"""What the consumer listens to: finished jobs, and jobs for segments it runs itself."""


class Segment:
    """Workers, the stages they run, and the queue that feeds them.

    Args:
        index: its number in the plan.
        stages: unique name and stage, in order.
        upstream: the stages before this segment, for a `Mix` to run again.
        executor: "thread", or "inline" for the consumer itself (for "process" see
            `ProcessSegment`).
        num_workers: how many threads.
        failures: the policy for failing samples.
        seed: of the run.
    """

    def __init__(
        self,
        index: int,
        stages: Sequence[tuple[str, PooledStage]],
        upstream: Sequence[tuple[str, PooledStage]],
        executor: Executor,
        num_workers: int,
        failures: Failures,
        seed: int,
    ) -> None:
        self.index, self.stages, self.executor = index, stages, executor
        self.next: Segment | None = None
        """Where finished jobs go; None at a section's end."""
        self._upstream, self.failures, self._seed = upstream, failures, seed
        self.desk: Desk | None = None
        """Of the cache among its stages, where there is one."""
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self.fill = Gauge(perf_counter_ns())
        """Jobs that wait before this segment."""
        count = num_workers if executor != "inline" else 1
        self.workers = [WorkerState(i, {name: Meter() for name, _ in stages}) for i in range(count)]
        self._mailbox: Mailbox | None = None
        self.waits_for_output: Callable[[Segment], bool] = lambda segment: False
        """Tells an idle worker what it waits for; the present flow knows."""
        self._pid = 0
        self._inline = ExitStack()
        self._runners: list[Callable[[Any], None]] | None = None

    # -- life ----------------------------------------------------------------------

    def deliver_to(self, mailbox: Mailbox) -> None:
        """Let an inline segment put its jobs into the consumer's mailbox."""
        if self.executor == "inline":
            self._mailbox = mailbox

    def start(self) -> None:
        """Start the workers, if it has any of its own."""
        if self.executor == "inline":
            return
        self._pid = os.getpid()
        for state in self.workers:
            state.thread = threading.Thread(
                target=self._work,
                args=(state,),
                name=f"stoker-{self.index}.{state.index}",
                daemon=True,
            )
            state.thread.start()

    def stop(self) -> None:
        """Ask the workers to end once their present job is done."""
        for state in self.workers:
            if state.thread is not None:
                self._queue.put(None)
        self._inline.close()
        self._runners = None

    def join(self, deadline_ns: int) -> list[str]:
        """Wait for the workers until a deadline; return the names of those still busy."""
        for state in self.workers:
            if state.thread is not None and state.thread is not threading.current_thread():
                state.thread.join(max(deadline_ns - perf_counter_ns(), 0) / 1e9)
        if self.desk is not None:
            self.desk.close()
        return [
            f"{state.thread.name} ({', '.join(name for name, _ in self.stages)})"
            for state in self.workers
            if state.thread is not None and state.thread.is_alive()
        ]

    def finish_present_jobs(self, timeout_s: float) -> None:
        """Wait until the workers are idle; jobs of a cancelled flow pass through unworked."""
        deadline_ns = perf_counter_ns() + int(timeout_s * 1e9)
        while self.executor != "inline" and self.active and perf_counter_ns() < deadline_ns:
            sleep(0.0002)

    def counters(self, now_ns: int) -> SegmentCounters:
        """Return the sum of the workers' counters. Read from outside the workers."""
        waits = [state.waits.read(now_ns) for state in self.workers]
        queued: list[int | None] = []
        for state in self.workers:
            now = self._runqueue_ns(state)
            state.runqueue_ns = state.runqueue_ns if now is None else now
            queued.append(state.runqueue_ns)
        known = [value for value in queued if value is not None]
        return SegmentCounters(
            sum(input_ns for input_ns, _ in waits),
            sum(output_ns for _, output_ns in waits),
            sum(known) if known else None,
            self.fill.area(now_ns),
        )

    @property
    def children_cpu_ns(self) -> int:
        """CPU time of child processes, which this process's own does not hold."""
        return 0

    def _runqueue_ns(self, state: WorkerState) -> int | None:
        """Return the time that a worker was ready and had no core, None where unknown."""
        thread = state.thread
        if thread is None or not thread.is_alive() or not thread.ident or not thread.native_id:
            return None
        return thread_time(thread.ident, thread.native_id).runqueue_ns

    # -- hand-over -----------------------------------------------------------------

    def put(self, job: Job) -> None:
        """Queue a job for this segment. Never blocks: what is in flight is bounded by the flow."""
        job.segment = self
        if self._mailbox is not None:
            self._mailbox.put(job)
            return
        if self._pid not in (0, os.getpid()):
            raise UsageError(
                "this loader was started before its process was forked, and its workers are in the "
                "other one; make a loader here"
            )
        with self._lock:
            self.fill.change(1, perf_counter_ns())
        self._queue.put(job)

    @property
    def active(self) -> bool:
        """It has work: queued, or under way."""
        return self.fill.level > 0 or any(not state.waits.since_ns for state in self.workers)

    def run_inline(self, job: Job) -> None:
        """Work on a job in the consumer's thread."""
        if self._runners is None:
            try:
                self._runners = self.open_stages(self.workers[0], self._inline)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                self._broken(job, error)
                return
        self._through(job, self._runners, self.workers[0])

    def _work(self, state: WorkerState) -> None:
        state.whereabouts.enter()
        with ExitStack() as stack:
            runners: list[Callable[[Any], None]] | None = None
            broken: BaseException | None = None
            try:
                runners = self.open_stages(state, stack)
                hold_to_one_thread()
            except BaseException as error:
                broken = error
            if runners is not None:
                self._serve(state, runners)
                return
            assert broken is not None
            while (job := self._get(state.waits)) is not None:
                self._broken(job, broken)
                del job

    def _serve(self, state: WorkerState, runners: Sequence[Callable[[Any], None]]) -> None:
        """Work on jobs until there are to be no more."""
        while (job := self._get(state.waits)) is not None:
            self._through(job, runners, state)
            # A worker that waits must not keep what it worked on alive.
            del job

    def _get(self, waits: WaitMeter) -> Job | None:
        try:
            return self._take()
        except Empty:
            waits.waits_for_output = self.waits_for_output(self)
            waits.since_ns = perf_counter_ns()
            job = self._queue.get()
            waits.end(perf_counter_ns())
        return self._taken(job)

    def _take(self) -> Job | None:
        """Return the next job that waits; raises Empty where none does."""
        return self._taken(self._queue.get_nowait())

    def _taken(self, job: Job | None) -> Job | None:
        if job is not None:
            with self._lock:
                self.fill.change(-1, perf_counter_ns())
        return job

    def _through(
        self, job: Job, runners: Sequence[Callable[[Any], None]], state: WorkerState
    ) -> None:
        flow, stage = job.flow, state.whereabouts.stage
        if not flow.cancelled:
            try:
                job.wall_ns, job.cpu_ns = perf_counter_ns(), thread_time_ns()
                for number, run in enumerate(runners):
                    stage[0] = number
                    run(job)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # sys.exit() in a stage, or a fault of ours
                names = ", ".join(name for name, _ in self.stages)
                what = f"{type(error).__name__}: {error}"
                ending = RunError(f"a worker of {names} was ended by {what}")
                ending.__cause__ = error
                give_up(job, ending)
        stage[0] = NOWHERE
        flow.advance(job)

    def _broken(self, job: Job, error: BaseException) -> None:
        """Hand the error of a stage that could not be opened to the consumer."""
        names = ", ".join(name for name, _ in self.stages)
        if isinstance(error, StokerError) and not isinstance(error, SampleError):
            message = str(error)
        else:
            message = f"{type(error).__name__}: {error}"
        ending = RunError(f"a worker of {names} could not start: {message}")
        ending.__cause__ = error
        give_up(job, ending)
        job.flow.advance(job)

    # -- stages --------------------------------------------------------------------

    def open_stages(self, state: WorkerState, stack: ExitStack) -> list[Callable[[Any], None]]:
        """Open the stages for a worker, in it; return what runs them over jobs."""
        runners: list[Callable[[Any], None]] = []
        for position, (name, stage) in enumerate(self.stages):
            worker = Worker(name, state.index, len(self.workers), self.executor)

            def enter(stage: PooledStage, worker: Worker = worker) -> Any:
                return stack.enter_context(_opened(stage, worker))

            function: Any = None if isinstance(stage, Cache) else enter(stage)
            meter, failures, seed = state.meters[name], self.failures, self._seed
            if isinstance(stage, Mix):
                before = [*self._upstream, *self.stages[:position]]
                opened = [(other, enter(upstream)) for other, upstream in before]
                runners.append(MixRunner(stage, name, function, meter, failures, seed, opened))
            elif isinstance(stage, Cache):
                assert self.desk is not None
                runners.append(CacheRunner(stage, name, self.desk, meter, failures, seed, enter))
            else:
                make = _runner_of(stage)
                runners.append(make(stage, name, function, meter, failures, seed))
        return runners


def give_up(job: Job, ending: RunError) -> None:
    """End the run with an error; what the job holds is not ready and must not be delivered."""
    job.tally.unused += job.size
    job.error = ending
    if isinstance(job, Chunk):
        job.aside = []
        job.keep(())
    elif isinstance(job, BatchJob):
        job.batch, job.samples, job.count, job.measured = None, [], 0, 0


def _opened(stage: PooledStage, worker: Worker) -> Any:
    return stage.open(worker)  # type: ignore[attr-defined]  # each family has its own open()


def _runner_of(stage: PooledStage) -> Callable[..., Callable[[Any], None]]:
    families: list[tuple[type[PooledStage], Callable[..., Callable[[Any], None]]]] = [
        (Source, ReadRunner),
        (StreamSource, StreamRunner),
        (Expand, ExpandRunner),
        (Gather, AssembleRunner),
        (BatchMap, BatchRunner),
    ]
    return next((runner for family, runner in families if isinstance(stage, family)), ChunkRunner)
