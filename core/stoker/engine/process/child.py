"""The child: opens a segment's stages and runs them over what it is sent."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import faulthandler
import mmap
import os
import pickle
import random
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from multiprocessing import spawn
from time import perf_counter_ns, process_time_ns, thread_time_ns
from typing import Any

from stoker.engine.failures import Failures
from stoker.engine.intraop import hold_to_one_thread
from stoker.engine.malloc import keep_freed_memory
from stoker.engine.process.channel import Channel, UnreadableError
from stoker.engine.process.copies import code_of, hear_no_signals, keep_for_itself
from stoker.engine.process.faults import Fault
from stoker.engine.process.preparing import (
    BETWEEN,
    IDLE,
    PAGE_BYTES,
    Assignment,
    Opening,
    names_main,
    this_is_a_worker,
)
from stoker.engine.process.work import (
    Answer,
    BatchWork,
    Broken,
    ChunkWork,
    Counted,
    End,
    Failed,
    Ready,
    answer_of,
)
from stoker.engine.segment import Segment, give_up
from stoker.engine.workers import WorkerState
from stoker.errors import RunError, SampleError
from stoker.measure.meter import Meter
from stoker.pipeline import OnError, Quarantine
from stoker.rng import stable_key
from stoker.sample import Origin

_PR_SET_PDEATHSIG = 1


class _Tape(Meter):
    """Notes what is counted, for the parent's meter."""

    def __init__(self) -> None:
        super().__init__()
        self.chunks: list[tuple[int, int, int, int, int]] = []

    def add(self, items_in: int, items_out: int, wall_ns: int, cpu_ns: int, nbytes: int) -> None:
        self.chunks.append((items_in, items_out, wall_ns, cpu_ns, nbytes))

    def take(self) -> Counted:
        """Return what was noted since the last time."""
        taken = Counted(self.chunks, self.failures)
        self.chunks, self.failures = [], 0
        return taken


class _Notes(Failures):
    """Notes failures: only the parent knows the budget."""

    def __init__(self, policy: OnError) -> None:
        super().__init__(policy)
        self.failed: list[Failed] = []

    def judge(
        self, stage: str, error: Exception, place: Origin, epoch: int, samples: int = 1
    ) -> RunError | None:
        failure = Failures("raise").judge(stage, error, place, epoch)
        if self.policy == "raise":
            return failure
        assert failure is not None
        self.failed.append(Failed(stage, Fault.of(failure), samples))
        return None


def main(fd: int, page_fd: int, parent: int, bound: int) -> None:
    """Serve the parent until it says so, or is gone.

    Args:
        fd: socket to the parent.
        page_fd: file whose first page tells the parent where we are; stacks go behind it.
        parent: its process id.
        bound: bytes of shared memory in each direction.
    """
    hear_no_signals()
    _end_with_parent(fd, parent)
    page = memoryview(mmap.mmap(page_fd, PAGE_BYTES)).cast("q")
    page[0] = BETWEEN
    faulthandler.register(signal.SIGUSR1, page_fd, all_threads=True, chain=False)
    channel = Channel(socket.socket(fileno=fd), bound)
    keep_for_itself(channel.socket, page_fd)
    stack, code = ExitStack(), 0
    try:
        with stack:
            try:
                child = _Child(channel, channel.receive(), page, stack)
                channel.send(Ready())
            except EOFError:
                return
            except BaseException as error:
                channel.send(Broken("cannot start", Fault.of(error)))
                return
            child.serve()
    except EOFError:
        return
    except BaseException as error:  # the parent tells of the exit code, and where to look
        code = code_of(error)
    finally:
        channel.close()
        _leave(code)


def _leave(code: int = 0) -> None:
    """End the process at once: unloading torch takes half a second, and gives nothing back."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        # There is none, it is closed, or nobody reads it.
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    os._exit(code)


def _end_with_parent(fd: int, parent: int) -> None:
    """Arrange that this process ends when its parent does, however that ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)

    def watch() -> None:
        poll = select.poll()
        poll.register(fd, 0)  # tells of the other end's closing, and of nothing else
        poll.poll()
        os._exit(0)

    threading.Thread(target=watch, name="stoker-parent-watch", daemon=True).start()


class _Child:
    """The stages, opened, and how far they are."""

    def __init__(
        self, channel: Channel, opening: Opening, page: memoryview[int], stack: ExitStack
    ) -> None:
        self._channel, self._page, self._pid = channel, page, os.getpid()
        this_is_a_worker()
        spawn.prepare(opening.preparation)
        self._script = opening.script
        channel.make_readable = self._runs_script
        keep_freed_memory()
        assignment: Assignment = pickle.loads(opening.assignment)
        policy: OnError = Quarantine() if assignment.quarantines else "raise"
        self._failures = _Notes(policy)
        segment = Segment(
            assignment.segment,
            assignment.stages,
            assignment.upstream,
            "process",
            assignment.workers,
            self._failures,
            assignment.seed,
        )
        self._tapes = {name: _Tape() for name, _ in assignment.stages}
        self._runners: list[Callable[[Any], None]] = segment.open_stages(
            WorkerState(opening.worker, dict(self._tapes)), stack
        )
        self._names = ", ".join(self._tapes)
        self._order: Sequence[Any] = ()
        hold_to_one_thread()
        _seed(stable_key(assignment.seed, self._names, opening.worker, opening.generation))
        page[0] = IDLE

    def _runs_script(self, message: bytearray) -> bool:
        """Run the user's script where a message names something of it; return whether it did."""
        script, self._script = self._script, {}
        if not script or not names_main(message):
            return False
        spawn.prepare(script)
        return True

    def serve(self) -> None:
        """Answer until the parent says that it is enough."""
        while True:
            try:
                work = self._channel.receive()
            except UnreadableError as error:
                self._channel.send(Broken("cannot read it", Fault.of(error)))
                continue
            if isinstance(work, End):
                return
            self._page[0] = BETWEEN
            answer = self._answer(work)
            del work
            try:
                packed = self._channel.pack(answer)
            except Exception as error:
                last = len(self._runners) - 1
                packed = self._channel.pack(Broken("cannot hand it on", Fault.of(error), last))
            del answer
            self._page[0] = IDLE  # before the parent can know: it may end us at any time
            self._channel.post(packed)
            del packed

    def _answer(self, work: ChunkWork | BatchWork) -> Answer:
        job: Any
        if isinstance(work, ChunkWork):
            if work.order is not None:
                self._order = work.order
            job = work.job(self._order)
        else:
            job = work.job()
        error: BaseException | None = None
        try:
            job.wall_ns, job.cpu_ns = perf_counter_ns(), thread_time_ns()
            for number, run in enumerate(self._runners):
                self._page[0] = number
                run(job)
        except BaseException as raised:  # sys.exit() in a stage, or a fault of ours
            error = raised
        if os.getpid() != self._pid:  # a stage forked, and the copy came out of it, too
            _leave(code_of(error))
        if error is not None:
            give_up(job, error if isinstance(error, SampleError) else _ended(self._names, error))
        self._page[0] = BETWEEN
        failed, self._failures.failed = self._failures.failed, []
        counted = {name: tape.take() for name, tape in self._tapes.items()}
        return Answer(
            **answer_of(job),
            failed=failed,
            counted=counted,
            cpu_ns=process_time_ns(),
            refused=self._channel.refused,
        )


def _ended(names: str, error: BaseException) -> RunError:
    ending = RunError(f"a worker of {names} was ended by {type(error).__name__}: {error}")
    ending.__cause__ = error
    return ending


def _seed(key: int) -> None:
    """Seed the generators that libraries share: else torch's would be alike in all workers."""
    random.seed(key)
    if "numpy" in sys.modules:
        import numpy

        numpy.random.seed(key & 0xFFFFFFFF)
    if "torch" in sys.modules:
        import torch

        torch.manual_seed(key & (1 << 63) - 1)
