"""A child as its parent sees it: started, asked, watched, ended."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

from stoker.engine.process.channel import Channel
from stoker.engine.process.preparing import BETWEEN, PAGE_BYTES, Opening, import_path

GRACE_S = 1.0
"""Given to a child to close its stages before it is killed."""

# Workers are the parallelism: libraries read these when they are loaded.
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OPENCV_FOR_THREADS_NUM")
# How long a stack may take to be written, and how long it says nothing more then.
_STACK_S, _STACK_QUIET_S = 1.0, 0.05


class Child:
    """A process that serves one worker. All but `interrupt` belong to that worker's thread.

    Args:
        opening: what it is to be.
        bound: bytes of shared memory in each direction.
    """

    def __init__(self, opening: Opening, bound: int) -> None:
        with contextlib.ExitStack() as undo:
            self._page = undo.enter_context(_page())
            mine, its = map(_clear_of_standard, socket.socketpair())
            undo.enter_context(mine)
            with its:
                self.process = _popen(its.fileno(), self._page.fileno(), bound)
            undo.pop_all()
        self._socket = mine
        self.channel = Channel(mine, bound)
        self._opening, self._pid = opening, os.getpid()
        self.cpu_ns = 0
        """CPU time, as it last said."""

    def open(self) -> None:
        """Tell it what it is to be; it answers once its stages are open."""
        self.channel.send(self._opening)

    def wait_at_most(self, timeout_s: float | None) -> None:
        """Let sending and receiving raise TimeoutError after so long."""
        self._socket.settimeout(timeout_s)

    @property
    def is_alive(self) -> bool:
        """It has not ended."""
        return self.process.poll() is None

    @property
    def stage(self) -> int:
        """The number of the stage it is in, or was when it ended; `IDLE` or `BETWEEN`."""
        return int.from_bytes(os.pread(self._page.fileno(), 8, 0), sys.byteorder, signed=True)

    def runqueue_ns(self) -> int | None:
        """Return the time that it was ready and had no core; None where unknown."""
        pid = self.process.pid
        try:
            fields = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()
            return int(fields[1])
        except (OSError, IndexError, ValueError):
            return None

    # -- the end -------------------------------------------------------------------

    def fate(self) -> str:
        """Wait for a child whose socket closed; return how it ended."""
        try:
            code = self.process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            return "closed its connection and was ended"
        if code >= 0:
            return f"ended with exit code {code}"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"was killed by {name}"

    def interrupt(self) -> None:
        """Let the worker's thread no longer wait for an answer. Called by any thread."""
        if os.getpid() != self._pid:
            return  # a forked copy of the parent: it shares the socket
        with contextlib.suppress(OSError):  # closed meanwhile
            self._socket.shutdown(socket.SHUT_RD)

    def end(self, message: object) -> None:
        """Ask it to end, kill it if it does not, and give back all that it took."""
        try:
            self.wait_at_most(GRACE_S)
            self.channel.send(message)
            self.process.wait(GRACE_S)
        except (OSError, EOFError, subprocess.TimeoutExpired):
            pass  # it is killed below
        self.kill()

    def kill(self) -> None:
        """End it at once, and give back all that it took."""
        self.process.kill()
        self.process.wait()
        self.channel.close()
        self._page.close()

    # -- silence -------------------------------------------------------------------

    def is_stopped(self) -> bool:
        """Whether a signal or a debugger stopped it."""
        try:
            stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        except OSError:
            return False
        return stat.rpartition(")")[2].split()[0] in ("T", "t")

    def stack(self) -> str:
        """Return where its threads are, or "" where it does not tell."""
        if not self.is_alive:
            return ""
        self.process.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + _STACK_S
        text = b""
        while time.monotonic() < deadline:
            time.sleep(_STACK_QUIET_S)
            before, text = text, os.pread(self._page.fileno(), 1 << 16, PAGE_BYTES)
            if text and text == before:
                break
        return text.decode(errors="replace").rstrip()


def _popen(end: int, page: int, bound: int) -> subprocess.Popen[bytes]:
    path = import_path()
    code = (
        f"import sys; sys.path[:] = {path!r}; from stoker.engine.process.child import main; "
        f"main({end}, {page}, {os.getpid()}, {bound})"
    )
    # Ctrl-C goes to all processes of a terminal: until the child ignores it, it must not
    # reach it. The mask is this thread's own.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        return subprocess.Popen(
            [sys.executable, *_flags(), "-c", code],
            stdin=subprocess.DEVNULL,
            pass_fds=(end, page),
            env={**os.environ, **dict.fromkeys(_THREADS, "1")},
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _clear_of_standard(end: socket.socket) -> socket.socket:
    """Move a socket from where standard streams belong: this process may have them closed."""
    if end.fileno() > 2:
        return end
    with end:
        return socket.socket(fileno=fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 3))


def _flags() -> list[str]:
    """Return the interpreter's options that a child takes over."""
    flags = [f"-W{option}" for option in sys.warnoptions]
    flags += [f"-X{k}" if v is True else f"-X{k}={v}" for k, v in sys._xoptions.items()]
    return flags + ["-O"] * sys.flags.optimize + ["-s"] * bool(sys.flags.no_user_site)


def _page() -> IO[bytes]:
    """Return an unnamed file: where the child is, and behind that its stack."""
    if hasattr(os, "memfd_create"):
        file: IO[bytes] = os.fdopen(os.memfd_create("stoker-page", os.MFD_CLOEXEC), "r+b", 0)
    else:
        file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - the child's handle closes it
    if file.fileno() <= 2:  # where standard streams belong, which are closed here
        with file:
            file = os.fdopen(fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 3), "r+b", 0)
    file.truncate(PAGE_BYTES)
    os.pwrite(file.fileno(), BETWEEN.to_bytes(8, sys.byteorder, signed=True), 0)
    os.lseek(file.fileno(), PAGE_BYTES, os.SEEK_SET)  # the child shares the place in the file
    return file
