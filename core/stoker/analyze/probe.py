"""The sampler's helper process: looks at another process's threads from outside.

Run as a script with the process's id, it takes commands on standard input and
answers each with one line on standard output. An observer inside the process would
need its GIL to look, and so see mostly the moments when the GIL is free.

    busy ADDRESS SIZE HOLDER   note which words are 1 while HOLDER holds the GIL
    idle                       keep of those the ones that are 0 while it is free
    watch TID PLACE STATE ...  sample these threads: their id, where the number of the
                               stage they are in lies, their interpreter state
    report                     answer with the counts so far, as JSON

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


class Watched:
    """One thread, and what it was found doing."""

    def __init__(self, tid: int, place: int, state: int) -> None:
        self.tid, self.place, self.state = tid, place, state
        self.causes: dict[int, dict[str, int]] = {}
        """Count by stage and cause."""
        self.held: dict[int, int] = {}
        """Count of times that it held the GIL, by stage."""


class Probe:
    """Looks at one process."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._memory = Memory(pid)
        self._calls = _CALLS.get(platform.machine(), {})
        self._runtime = (0, 0)
        self._candidates: list[int] = []
        self._holder = 0
        self._knows_holder = False
        self._threads: list[Watched] = []
        self._gil = [0, 0]

    # -- finding the GIL -------------------------------------------------------------

    def busy(self, address: int, size: int, holder: int) -> int:
        """Note the words that are 1 in every look while the GIL is held."""
        self._runtime, self._holder = (address, size), holder
        found: list[int] | None = None
        for _ in range(12):
            words = self._memory.words(address, size)
            if words is None:
                return 0
            pool = range(2, len(words)) if found is None else found
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
        left = [i for i, count in zeros.items() if count >= looks - 2]
        # In CPython 3.11 to 3.13 the last holder's state lies right before the word.
        named = [i for i in left if self._pointer(i) == self._holder]
        self._candidates, self._knows_holder = named or left, bool(named)
        return len(self._candidates)

    def _pointer(self, index: int) -> int:
        """Return the pointer before a word of the runtime."""
        words = self._memory.words(self._runtime[0] + 4 * index - 8, 8)
        return int.from_bytes(words.tobytes(), sys.byteorder) if words is not None else 0

    # -- sampling ------------------------------------------------------------------

    def watch(self, numbers: list[int]) -> int:
        """Start afresh with these threads."""
        triples = zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)
        self._threads = [Watched(*triple) for triple in triples]
        self._gil = [0, 0]
        return len(self._threads)

    def look(self) -> None:
        """Take one sample of every thread that is in a stage, and of the GIL."""
        places = {thread: self._stage(thread) for thread in self._threads}
        for thread, stage in places.items():
            cause = self.cause(thread.tid) if stage >= 0 else ""
            if cause and self._stage(thread) == stage:  # else it moved on in between
                counts = thread.causes.setdefault(stage, {})
                counts[cause] = counts.get(cause, 0) + 1
        if not self._candidates or not self._threads:
            return
        words = self._memory.words(self._runtime[0] + 4 * self._candidates[0] - 8, 12)
        if words is None:
            return
        self._gil[1] += 1
        if words[2] != 1:
            return
        self._gil[0] += 1
        state = int.from_bytes(words.tobytes()[:8], sys.byteorder)
        for thread, stage in places.items():
            if thread.state == state and stage >= 0 and self._knows_holder:
                thread.held[stage] = thread.held.get(stage, 0) + 1

    def _stage(self, thread: Watched) -> int:
        words = self._memory.words(thread.place, 8)
        return words[0] if words is not None else -1

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
        """Return the counts by thread and stage, and of the GIL: held, looks."""
        return {
            "threads": {thread.tid: thread.causes for thread in self._threads},
            "held": {thread.tid: thread.held for thread in self._threads},
            "gil": self._gil,
        }


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
                answer = probe.watch(numbers)
            else:
                answer = probe.report()
            os.write(1, (json.dumps(answer) + "\n").encode())


if __name__ == "__main__":
    main(int(sys.argv[1]))
