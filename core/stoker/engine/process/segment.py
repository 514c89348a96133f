"""A segment whose workers are processes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from queue import Empty
from typing import Any

from stoker.engine.jobs import Job
from stoker.engine.process.attendant import Attendant, StoppedError
from stoker.engine.process.launch import GRACE_S, Child
from stoker.engine.process.preparing import Assignment, know_the_script_by_both_names, opening
from stoker.engine.process.proxy import Proxy
from stoker.engine.segment import Segment
from stoker.engine.workers import WorkerState
from stoker.errors import RunError
from stoker.stages import Mix

# Of shared memory that may be in use in each direction, per worker.
MOST_SHARED_BYTES, LEAST_SHARED_BYTES = 256 << 20, 1 << 20


class ProcessSegment(Segment):
    """Like a segment of threads, each of which has a child do its work.

    Args:
        timeout_s: longest silence of a child, or None.
        prefetch_bytes: bound on all that is prefetched.
        others: as for `Segment`.
    """

    def __init__(self, *others: Any, timeout_s: float | None, prefetch_bytes: int) -> None:
        super().__init__(*others)
        self._timeout_s = timeout_s
        share = prefetch_bytes // len(self.workers)
        self._bound = min(max(share, LEAST_SHARED_BYTES), MOST_SHARED_BYTES)
        self._assignment = b""
        self._attendants: list[Attendant | None] = [None] * len(self.workers)
        self._is_stopping = False

    def start(self) -> None:
        """Start all workers at once; each starts a child."""
        mixes = any(isinstance(stage, Mix) for _, stage in self.stages)
        self._assignment = pickle.dumps(
            Assignment(
                self.index,
                self.stages,
                self._upstream if mixes else (),
                self._seed,
                self.failures.policy != "raise",
                len(self.workers),
            )
        )
        know_the_script_by_both_names()
        super().start()

    def stop(self) -> None:
        """Ask the workers to end; what they are at is given up."""
        self._is_stopping = True
        for attendant in self._attendants:
            if attendant is not None:
                attendant.stop()
        super().stop()

    def finish_present_jobs(self, timeout_s: float) -> None:
        """Wait until the workers are idle; what takes long is given up with its child."""
        super().finish_present_jobs(min(GRACE_S, timeout_s))
        if self.active:
            for state, attendant in zip(self.workers, self._attendants, strict=True):
                if attendant is not None and not state.waits.since_ns:
                    attendant.give_up()
            super().finish_present_jobs(timeout_s)

    def open_stages(self, state: WorkerState, stack: ExitStack) -> list[Callable[[Any], None]]:
        """Start a worker's child, which opens the stages; return what has it do jobs."""

        def make(generation: int) -> Child:
            return Child(opening(self._assignment, state.index, generation), self._bound)

        attendant = Attendant([name for name, _ in self.stages], make, self._timeout_s)
        self._attendants[state.index] = attendant
        stack.callback(attendant.close)
        if self._is_stopping:
            attendant.stop()
        try:
            attendant.start()
        except StoppedError:
            raise RunError("it was stopped before it had started") from None
        return [Proxy(self.stages, state.meters, self.failures, attendant)]

    def _serve(self, state: WorkerState, runners: Sequence[Callable[[Any], None]]) -> None:
        """Work until told to stop, with one job ahead so that the child need not wait."""
        (proxy,) = runners
        assert isinstance(proxy, Proxy)
        job = self._get(state.waits)
        while job is not None:
            following: Job | None = None
            is_taken = False
            if proxy.is_quick and not job.flow.cancelled and proxy.begin(job):
                with suppress(Empty):
                    following, is_taken = self._take(), True
                if following is not None and not following.flow.cancelled:
                    proxy.begin(following)
            if job.flow.cancelled:
                proxy.forget(job)
            self._through(job, runners, state)
            job = following if is_taken else self._get(state.waits)
            del following

    @property
    def children_cpu_ns(self) -> int:
        """CPU time of the children, as they last said."""
        return sum(one.cpu_ns for one in self._attendants if one is not None)

    def _runqueue_ns(self, state: WorkerState) -> int | None:
        """Return the time that a worker was ready and had no core, None where unknown."""
        attendant = self._attendants[state.index]
        return attendant.runqueue_ns if attendant is not None else None
