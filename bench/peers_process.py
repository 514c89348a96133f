"""The parent's side of `bench.peers_child`: a contestant in a process of its own."""

from __future__ import annotations

import json
import os
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
# A thread a worker: operators that spread over cores would make more of them.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2"}
_SAMPLE_S = 0.1


class FailedError(RuntimeError):
    """A contestant that did not do its job, and what it said last."""


class Told(NamedTuple):
    """What an epoch was like. Times in s."""

    pictures: int
    seconds: float
    first_s: float
    cpu_s: float
    mean: float | None
    by_others: float
    """Cores that processes outside this contestant's took."""


class Warm(NamedTuple):
    """What opening a contestant and its first epoch were like."""

    cold_s: float
    """From opening it to its first batch, in s."""
    pss_bytes: int
    """Most memory that its processes had."""
    mean: float | None
    """Mean of all values."""
    versions: dict[str, str]


class Process:
    """A contestant's process. A context manager: leaving it ends the process.

    Args:
        name: the contestant's.
        job: what it shall do.
        python: the interpreter of its environment.
    """

    def __init__(self, name: str, job: Job, python: str = sys.executable) -> None:
        self.name = name
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by __exit__
        self._child = subprocess.Popen(
            [python, "-m", "bench.peers_child", name, job.to_json()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=_ROOT,
            env=_surroundings(),
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

    def warm_up(self) -> Warm:
        """Run the first epoch.

        Raises:
            FailedError: it could not be opened, or did not do its job.
        """
        with _Memory(self._child.pid) as memory:
            opened = self._answer()
            told = self.epoch("warm")
        cold_s = opened["open_s"] + told.first_s
        return Warm(cold_s, memory.peak_bytes, told.mean, opened["versions"])

    def epoch(self, kind: str = "timed") -> Told:
        """Run one epoch.

        Raises:
            FailedError: it ended, or its batches were not those asked for.
        """
        busy_s = _busy_s()
        assert self._child.stdin is not None
        try:
            print(kind, file=self._child.stdin, flush=True)
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


def prepare(name: str, job: Job, python: str = sys.executable) -> None:
    """Let a contestant write the pictures in a format of its own.

    Raises:
        FailedError: it could not.
    """
    words = [python, "-m", "bench.peers_child", name, job.to_json(), "--prepare"]
    done = subprocess.run(words, cwd=_ROOT, env=_surroundings(), capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise FailedError(f"{name} could not prepare: {lines[-1] if lines else 'without a word'}")


def _surroundings() -> dict[str, str]:
    # An environment without Stoker finds its stages so.
    path = os.pathsep.join(str(_ROOT / part) for part in ("core", "plugins", "pipelines"))
    return {**os.environ, **_ONE_THREAD, **_QUIET, "PYTHONPATH": path}


def _busy_s() -> float:
    """Return the CPU time that all of the machine's processes have taken, in s."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0))
