"""Keeps one child going: starts it, asks it, notices when it dies or falls silent."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence

from stoker.engine.process.channel import UnreadableError
from stoker.engine.process.faults import Fault, WorkerError
from stoker.engine.process.launch import Child
from stoker.engine.process.preparing import IDLE
from stoker.engine.process.work import Answer, BatchWork, Broken, ChunkWork, End
from stoker.errors import RunError, SampleError
from stoker.sample import Origin

# Opening stages may import libraries and load models.
START_TIMEOUT_S = 120.0


class LostError(Exception):
    """Some work did not come back.

    Args:
        reason: what happened, after "its worker".
        stage: number of the stage that it was in.
        cause: what the child said about it.
    """

    def __init__(self, reason: str, stage: int, cause: Fault | None = None) -> None:
        super().__init__(reason)
        self.reason, self.stage, self.cause = reason, max(stage, 0), cause
        self.was_idle = stage == IDLE
        """It was lost before it took the work up."""

    @property
    def is_death(self) -> bool:
        """The child is gone: it is not merely that something could not cross."""
        return self.cause is None or not self.cause.message

    def as_failure(self, stage: str, place: Origin) -> SampleError:
        """Return the error of a sample that this befell for the second time."""
        reason = f"its worker {self.reason}"
        reason += " twice" if self.is_death else f": {self.cause.message if self.cause else ''}"
        failure = SampleError(stage, reason, key=place.key, shard=place.shard, offset=place.offset)
        if self.cause is not None and self.cause.trace:
            failure.__cause__ = WorkerError(self.cause.trace)
        return failure


class StoppedError(Exception):
    """Nobody wants the answer any more."""


class Attendant:
    """Has work done by a child, and replaces it where it is lost.

    Args:
        names: of the stages, in order.
        make: starts a child; given how many there were before it.
        timeout_s: longest silence of a child, or None.
    """

    def __init__(
        self, names: Sequence[str], make: Callable[[int], Child], timeout_s: float | None
    ) -> None:
        self._make, self._timeout_s = make, timeout_s
        self.names, self._last = ", ".join(names), len(names) - 1
        self._child: Child | None = None
        self.generation = 0
        """Children that were ever started."""
        self.refused = ""
        """Why arrays go through a pipe, "" where they do not."""
        self._stopping = self._giving_up = False
        self._past_cpu_ns = self._past_runqueue_ns = 0

    # -- life ----------------------------------------------------------------------

    def start(self) -> None:
        """Start a child and wait until its stages are open; once more where a signal kills it.

        Raises:
            RunError: it could not start, and why.
            StoppedError: nobody wants it any more.
        """
        if not self._start(is_last=False):
            self._start(is_last=True)

    def _start(self, is_last: bool) -> bool:
        try:
            self._child = child = self._make(self.generation)
        except OSError as fault:
            text = str(fault)
            if fault.errno in (errno.EMFILE, errno.ENFILE):  # which file it was says nothing
                text = f"{fault.strerror}; raise the limit (ulimit -n) or lower num_workers"
            raise RunError(text) from fault
        self.generation += 1
        if self._stopping:
            child.interrupt()
        patience = self._timeout_s and max(self._timeout_s, START_TIMEOUT_S)
        child.wait_at_most(patience)
        try:
            child.open()
            said = child.channel.receive()
        except EOFError:
            if self._stopping:
                raise StoppedError from None
            fate = child.fate()
            self._drop()
            if fate.startswith("was killed") and not is_last:
                return False
            raise RunError(f"its process {fate}; see its output above") from None
        except TimeoutError:
            reason, stack = _silence(child, f"did not open its stages within {patience:g} s")
            self._drop()
            raise RunError(f"its process {reason}. It was here:\n{stack or 'unknown'}") from None
        if isinstance(said, Broken):
            self._drop()
            error = RunError(f"{said.fault.message}\n{said.fault.trace.rstrip()}")
            error.__cause__ = said.fault.error().__cause__
            raise error
        child.wait_at_most(self._timeout_s)
        return True

    def stop(self) -> None:
        """Let no work go on. Called by any thread, within any call; waits for nothing."""
        self._stopping = True
        child = self._child
        if child is not None:
            child.interrupt()

    def give_up(self) -> None:
        """Let the present work go: nobody wants it. Called by any thread."""
        self._giving_up = True
        child = self._child
        if child is not None:
            child.interrupt()

    def close(self) -> None:
        """End the child."""
        self._drop(End())

    @property
    def cpu_ns(self) -> int:
        """CPU time of all its children, as they last said."""
        child = self._child
        return self._past_cpu_ns + (child.cpu_ns if child is not None else 0)

    @property
    def runqueue_ns(self) -> int | None:
        """Time that its children were ready and had no core, None where unknown."""
        child = self._child
        now = child.runqueue_ns() if child is not None else None
        return None if now is None else now + self._past_runqueue_ns

    def _drop(self, farewell: End | None = None) -> None:
        """Give the present child up; with a farewell it may close its stages."""
        child, self._child = self._child, None
        if child is not None:
            self._past_runqueue_ns += child.runqueue_ns() or 0
            self._past_cpu_ns += child.cpu_ns
            if farewell is not None:
                child.end(farewell)
            else:
                child.kill()

    # -- work ----------------------------------------------------------------------

    def ask(self, work: ChunkWork | BatchWork) -> Answer:
        """Have the child do some work.

        Raises:
            LostError: it died, said nothing, or could not be told or tell.
            StoppedError: the segment is being stopped, or nobody wants the work any more.
            RunError: no child could be started.
        """
        self.tell(work)
        return self.hear()

    def tell(self, work: ChunkWork | BatchWork, *, ahead: bool = False) -> bool:
        """Let the child have some work; raises as `ask` does.

        Args:
            work: what it is to do.
            ahead: it is busy with other work, so that this may take no more room than
                there surely is; return False where it would.
        """
        child = self._child if ahead else self.ready()
        if child is None:
            return False
        if not ahead:
            self._giving_up = False
        try:
            packed = child.channel.pack(work)
        except Exception as error:
            raise LostError("cannot be given it", 0, Fault.of(error)) from error
        try:
            return child.channel.post(packed, must_fit=ahead)
        except (EOFError, TimeoutError) as error:
            raise self._lost(child, isinstance(error, TimeoutError)) from None

    def hear(self) -> Answer:
        """Wait for what came of the work that the child got first; raises as `ask` does."""
        child = self._child
        if child is None:
            raise StoppedError
        try:
            said: Answer | Broken = child.channel.receive()
        except UnreadableError as error:
            raise LostError("gave back what cannot be read", self._last, Fault.of(error)) from error
        except (EOFError, TimeoutError) as error:
            raise self._lost(child, isinstance(error, TimeoutError)) from None
        if isinstance(said, Broken):
            raise LostError(said.what, said.stage, said.fault)
        child.cpu_ns = said.cpu_ns
        self.refused = said.refused or child.channel.refused
        return said

    def ready(self) -> Child:
        """Return the child; a fresh one where it died while it had nothing to do."""
        if self._child is not None and not self._child.is_alive:
            self._drop()
        if self._stopping:
            raise StoppedError
        if self._child is None:
            try:
                self.start()
            except RunError as error:
                text = f"a worker of {self.names} could not start again: {error}"
                raise RunError(text) from error
        assert self._child is not None
        return self._child

    def _lost(self, child: Child, silent: bool) -> LostError | StoppedError:
        """Give a dead or silent child up; return what is to be raised."""
        if self._stopping:
            return StoppedError()
        if self._giving_up:
            self._drop()
            return StoppedError()
        stage, stack = child.stage, ""
        if silent:
            reason, stack = _silence(child, f"did not answer for {self._timeout_s:g} s")
        else:
            reason = child.fate()
        self._drop()
        return LostError(reason, stage, Fault("", stack, None) if stack else None)


def _silence(child: Child, what: str) -> tuple[str, str]:
    """Return in words that a child is silent, and its stack where it tells."""
    if child.is_stopped():
        return f"{what}, stopped by a signal, and was killed", ""
    stack = child.stack()
    return f"{what} and was killed", stack
