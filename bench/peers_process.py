"""The parent's side of `bench.peers_child`: a contestant in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import psutil

from bench.peers_job import Job

_ROOT = Path(__file__).resolve().parents[1]
_SAMPLE_S = 0.1


class FailedError(RuntimeError):
    """A contestant that did not do its job, and what it said last."""


class Told(NamedTuple):
    """What an epoch was like. Times in s."""

    pictures: int
    seconds: float
    first_s: float
    cpu_s: float
    by_others: float
    """Cores that processes outside this contestant's took."""


class Process:
    """A contestant's process. A context manager: leaving it ends the process.

    Args:
        name: the contestant's.
        job: what it shall do.
    """

    def __init__(self, name: str, job: Job) -> None:
        self.name = name
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by __exit__
        self._child = subprocess.Popen(
            [sys.executable, "-m", "bench.peers_child", name, job.to_json()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=_ROOT,
        )

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdout.close()
        try:
            self._child.stdin.close()
            self._child.wait(10)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._child.kill()
            self._child.wait()
        self._errors.close()

    def warm_up(self) -> tuple[float, int]:
        """Run the first epoch.

        Returns:
            Seconds from opening to the first batch, and the most memory that the
            process and its children had (PSS, in bytes).

        Raises:
            FailedError: it could not be opened, or did not do its job.
        """
        opened = self._answer()
        with _Memory(self._child.pid) as memory:
            told = self.epoch()
        return opened["open_s"] + told.first_s, memory.peak_bytes

    def epoch(self) -> Told:
        """Run one epoch.

        Raises:
            FailedError: it ended, or its batches were not those asked for.
        """
        busy_s = _busy_s()
        assert self._child.stdin is not None
        try:
            print("epoch", file=self._child.stdin, flush=True)
        except BrokenPipeError as error:
            raise FailedError(self._last_words()) from error
        told = self._answer()
        others_s = max(0.0, _busy_s() - busy_s - told["cpu_s"])
        return Told(**told, by_others=others_s / told["seconds"])

    def _answer(self) -> dict[str, Any]:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            self._child.wait()
            raise FailedError(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines()
        return f"{self.name} failed: {lines[-1] if lines else 'without a word'}"


class _Memory:
    """Watches the memory of a process and its children."""

    def __init__(self, pid: int) -> None:
        self.peak_bytes = 0
        self._root = psutil.Process(pid)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _Memory:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_SAMPLE_S):
            self.peak_bytes = max(self.peak_bytes, self._now())

    def _now(self) -> int:
        total = 0
        try:
            for process in (self._root, *self._root.children(recursive=True)):
                total += process.memory_full_info().pss
        except psutil.Error:  # one ended while it was asked
            return 0
        return total


def _busy_s() -> float:
    """Return the CPU time that all of the machine's processes have taken, in s."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0))
