"""The sampler's helper process: looks at another process's threads from outside.

Run as a script with the process's id, it takes commands on standard input and
answers each with one line on standard output. An observer inside the process would
need its GIL to look, and so see mostly the moments when the GIL is free.

    busy ADDRESS SIZE   note which words in memory are 1 while the GIL is held
    idle                keep of those the ones that are 0 while it is free
    watch TID ...       sample these threads, and the GIL, until the next command
    report              answer with the counts so far, as JSON

Only the standard library is used, so that it starts in milliseconds.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import random
import select
import sys
import time
from array import array

HERTZ = 25.0
"""Mean rate of sampling; the period is drawn anew each time, so as to lock on to nothing."""

# System calls by what a thread that sits in one waits for (Linux: unistd_64.h and
# asm-generic/unistd.h).
_CALLS = {
    "x86_64": {
        "futex": {202},
        "sleep": {35, 230, 7, 271, 23, 270, 232, 281, 34},
        "disk": {0, 17, 19, 295, 1, 18, 20, 74, 75, 257, 2, 4, 5, 6, 262, 217, 78, 332, 9, 28},
        "network": {45, 47, 42, 43, 44, 46, 288, 299},
    },
    "aarch64": {
        "futex": {98},
        "sleep": {101, 115, 73, 72, 22},
        "disk": {63, 67, 65, 69, 64, 68, 66, 82, 83, 56, 79, 80, 61, 291, 222, 233},
        "network": {207, 212, 203, 202, 206, 211, 242, 243},
    },
}


class _Span(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class Memory:
    """Reads another process's memory (process_vm_readv(2))."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._read = ctypes.CDLL(None, use_errno=True).process_vm_readv

    def words(self, address: int, size: int) -> array[int] | None:
        """Return the 32-bit words at an address, or None where they may not be read."""
        buffer = ctypes.create_string_buffer(size)
        here = _Span(ctypes.cast(buffer, ctypes.c_void_p), size)
        there = _Span(ctypes.c_void_p(address), size)
        got = self._read(self._pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
        if got != size:
            return None
        words: array[int] = array("i")
        words.frombytes(buffer.raw[: size - size % 4])
        return words


class Probe:
    """Looks at one process."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._memory = Memory(pid)
        self._calls = _CALLS.get(platform.machine(), {})
        self._runtime = (0, 0)
        self._candidates: list[int] = []
        self._tids: list[int] = []
        self._counts: dict[int, dict[str, int]] = {}
        self._gil = [0, 0]

    # -- finding the GIL -------------------------------------------------------------

    def busy(self, address: int, size: int) -> int:
        """Note the words that are 1 in every look while the GIL is held."""
        self._runtime = (address, size)
        found: list[int] | None = None
        for _ in range(12):
            words = self._memory.words(address, size)
            if words is None:
                return 0
            pool = range(len(words)) if found is None else found
            found = [i for i in pool if words[i] == 1]
            time.sleep(0.004)
        self._candidates = found or []
        return len(self._candidates)

    def idle(self) -> int:
        """Keep the words that are 0 nearly always while the GIL is free."""
        address, size = self._runtime
        zeros = dict.fromkeys(self._candidates, 0)
        looks = 12
        for _ in range(looks):
            words = self._memory.words(address, size)
            if words is None:
                return 0
            for i in self._candidates:
                zeros[i] += words[i] == 0
            time.sleep(0.004)
        self._candidates = [i for i, count in zeros.items() if count >= looks - 2]
        return len(self._candidates)

    # -- sampling ------------------------------------------------------------------

    def watch(self, tids: list[int]) -> None:
        """Start afresh with these threads."""
        self._tids = tids
        self._counts = {tid: {} for tid in tids}
        self._gil = [0, 0]

    def look(self) -> None:
        """Take one sample of every thread and of the GIL."""
        for tid in self._tids:
            cause = self.cause(tid)
            if cause:
                counts = self._counts[tid]
                counts[cause] = counts.get(cause, 0) + 1
        if self._candidates and self._tids:
            words = self._memory.words(self._runtime[0] + 4 * self._candidates[0], 4)
            if words is not None:
                self._gil[0] += words[0] == 1
                self._gil[1] += 1

    def cause(self, tid: int) -> str:
        """Return what a thread does right now, "" where it may not be asked or is gone."""
        try:
            with open(f"/proc/{self._pid}/task/{tid}/syscall") as file:
                fields = file.read().split()
        except OSError:
            return ""
        if not fields or fields[0] == "running":
            return "running"
        number = int(fields[0])
        if number in self._calls.get("futex", ()):
            address, size = self._runtime
            return "gil" if address <= int(fields[1], 16) < address + size else "lock"
        for cause in ("sleep", "disk", "network"):
            if number in self._calls.get(cause, ()):
                return cause
        return "other"

    def report(self) -> dict[str, object]:
        """Return the counts by thread, and of the GIL: held, looks."""
        return {"threads": self._counts, "gil": self._gil}


def main(pid: int) -> None:
    """Serve commands until standard input closes or the process is gone."""
    probe = Probe(pid)
    draw = random.Random(pid)
    pending = b""
    next_look = time.monotonic()
    while True:
        wait = max(next_look - time.monotonic(), 0.0)
        ready, _, _ = select.select([0], [], [], wait)
        if not ready:
            probe.look()
            next_look = time.monotonic() + draw.uniform(0.5, 1.5) / HERTZ
            continue
        data = os.read(0, 65536)
        if not data:
            return
        pending += data
        while b"\n" in pending:
            line, pending = pending.split(b"\n", 1)
            command, *words = line.decode().split()
            numbers = [int(word) for word in words]
            if command == "busy":
                answer: object = probe.busy(*numbers)
            elif command == "idle":
                answer = probe.idle()
            elif command == "watch":
                probe.watch(numbers)
                answer = len(numbers)
            else:
                answer = probe.report()
            os.write(1, (json.dumps(answer) + "\n").encode())


if __name__ == "__main__":
    main(int(sys.argv[1]))
