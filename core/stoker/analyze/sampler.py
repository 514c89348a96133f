"""What blocked threads wait for: GIL, lock, sleep, disk. Seen from a helper process.

Counters alone cannot tell these apart. Where the system does not let one process look
at another's threads, the shares are missing, and verdicts say "wait".
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from stoker.analyze.evidence import Cause
from stoker.measure.whereabouts import Whereabouts

_ANSWER_S = 5.0
# prctl(2): lets a process that is no ancestor of ours look at us under Yama.
_PR_SET_PTRACER = 0x59616D61


_Name = TypeVar("_Name", bound=str)


@dataclass(frozen=True)
class Thread:
    """A thread to sample: its id, its place in memory, the stages that it runs."""

    native_id: int
    place: Whereabouts
    stages: Sequence[str]


@dataclass(frozen=True)
class Sampled:
    """What a sampler saw of threads while they were in a stage."""

    causes: Mapping[str, Mapping[Cause, float]]
    """By stage: what its threads were found doing, as shares."""
    gil_holders: Mapping[str, float]
    """By stage: its share of the time that the GIL was held in stages."""
    gil_busy: float | None
    """Share of the time that the GIL was held."""


class Sampler:
    """A helper process that samples threads of this one, while it is entered.

    `reason` says why nothing can be sampled, "" where all is well.
    """

    def __init__(self) -> None:
        self.reason = ""
        self.finds_gil = False
        self._helper: subprocess.Popen[bytes] | None = None
        self._threads: dict[int, Thread] = {}

    def __enter__(self) -> Sampler:
        if not sys.platform.startswith("linux"):
            self.reason = "threads can be sampled on Linux only"
            return self
        script = str(Path(__file__).with_name("probe.py"))
        try:
            self._helper = subprocess.Popen(
                [sys.executable, "-S", "-E", script, str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,  # Ctrl-C is for the job: it ends the helper itself
            )
        except OSError as error:
            self.reason = f"no helper process: {error}"
            return self
        _allow(self._helper.pid)
        self._calibrate()
        return self

    def __exit__(self, *error: object) -> None:
        helper, self._helper = self._helper, None
        if helper is not None:
            assert helper.stdin is not None
            assert helper.stdout is not None
            helper.stdin.close()
            helper.stdout.close()
            helper.kill()
            helper.wait()

    def watch(self, threads: Sequence[Thread]) -> None:
        """Start to sample threads; counts begin at zero."""
        numbers = [
            number
            for thread in threads
            for number in (thread.native_id, thread.place.address, thread.place.thread_state)
        ]
        self._threads = {thread.native_id: thread for thread in threads}
        self._ask("watch " + " ".join(map(str, numbers)))

    def report(self) -> Sampled:
        """Return what was seen since `watch`."""
        answer = self._ask("report")
        if not isinstance(answer, dict):
            return Sampled({}, {}, None)
        causes: dict[str, dict[Cause, float]] = {}
        holders: dict[str, float] = {}
        for tid, stages in answer["threads"].items():
            names = self._threads[int(tid)].stages
            for number, counts in stages.items():
                seen = causes.setdefault(names[int(number)], {})
                for cause, count in counts.items():
                    seen[cause] = seen.get(cause, 0.0) + count
        for tid, stages in answer["held"].items():
            names = self._threads[int(tid)].stages
            for number, count in stages.items():
                holders[names[int(number)]] = holders.get(names[int(number)], 0.0) + count
        if not causes and not self.reason and self._threads:
            self.reason = "the system does not let a helper process look at our threads"
        held, looks = answer["gil"]
        return Sampled(
            {stage: _shares(counts) for stage, counts in causes.items()},
            _shares(holders) if holders else {},
            held / looks if looks and self.finds_gil else None,
        )

    def _calibrate(self) -> None:
        """Let the helper find the word that says whether the GIL is held."""
        where = runtime_span()
        if where is None:
            return
        here = Whereabouts()
        here.enter()
        self._tell(f"busy {where[0]} {where[1]} {here.thread_state}")
        deadline = time.monotonic() + 0.12
        while time.monotonic() < deadline:
            sum(range(2_000_000))  # one C call, in which the GIL is never let go
        found = self._answer()
        if found:
            self.finds_gil = bool(self._ask("idle"))

    def _ask(self, command: str) -> Any:
        self._tell(command)
        return self._answer()

    def _tell(self, command: str) -> None:
        if self._helper is None or self._helper.stdin is None:
            return
        try:
            self._helper.stdin.write(command.encode() + b"\n")
        except OSError as error:
            self.reason = f"the helper process ended: {error}"

    def _answer(self) -> Any:
        if self._helper is None or self._helper.stdout is None or self.reason:
            return None
        line = self._helper.stdout.readline()
        if not line:
            self.reason = "the helper process ended"
            return None
        return json.loads(line)


def _shares(counts: Mapping[_Name, float]) -> dict[_Name, float]:
    total = sum(counts.values())
    return {name: count / total for name, count in counts.items()} if total else {}


def _allow(pid: int) -> None:
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)
    except (OSError, AttributeError):
        return  # no Yama to ask: then nothing forbids it either


class _Symbol(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_uint32),
        ("info", ctypes.c_uint8),
        ("other", ctypes.c_uint8),
        ("section", ctypes.c_uint16),
        ("value", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
    )


def runtime_span() -> tuple[int, int] | None:
    """Return address and size of CPython's runtime state, which holds the GIL, or None.

    The size comes from the symbol table, through dladdr1(3).
    """

    class Info(ctypes.Structure):
        _fields_ = (
            ("file", ctypes.c_char_p),
            ("base", ctypes.c_void_p),
            ("symbol", ctypes.c_char_p),
            ("address", ctypes.c_void_p),
        )

    try:
        address = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
        info, symbol = Info(), ctypes.POINTER(_Symbol)()
        found = ctypes.CDLL(None).dladdr1(
            ctypes.c_void_p(address), ctypes.byref(info), ctypes.byref(symbol), 1
        )
    except (ValueError, OSError, AttributeError):
        return None
    if not found or not symbol or not symbol.contents.size:
        return None
    return address, int(symbol.contents.size)
