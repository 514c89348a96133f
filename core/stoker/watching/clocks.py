"""What the process, the loop's thread and the whole machine spent between two moments."""

from __future__ import annotations

import os
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stoker.measure.threads import thread_time

_STAT: Final = Path("/proc/stat")
# user, nice, system, idle, iowait, irq, softirq, steal (proc(5))
_BUSY: Final = (1, 2, 3, 6, 7, 8)


# Asking for all cores takes a tenth of a millisecond or more: not for each short pass.
_MACHINE_EVERY_NS: Final = 2_000_000_000


@dataclass
class Spent:
    """Sums over passes, in ns; None where the system does not tell."""

    elapsed_ns: int = 0
    process_cpu_ns: int = 0
    runqueue_ns: int | None = 0
    """The loop's thread ready and waiting for a core."""
    busy_ns: int | None = 0
    """All cores that this process may use, whoever used them, in some of the passes."""
    busy_elapsed_ns: int = 0
    """How long these passes took."""
    asked_ns: int | None = None

    def begin(self) -> Reading:
        """Return the clocks at the start of a pass."""
        now = time.perf_counter_ns()
        ask = self.asked_ns is None or now - self.asked_ns > _MACHINE_EVERY_NS
        if ask:
            self.asked_ns = now
        return Reading.now(threading.get_ident(), threading.get_native_id(), machine=ask)

    def end(self, start: Reading) -> None:
        """Add what was spent since the start of a pass."""
        end = Reading.now(start.ident, start.native_id, machine=start.busy_ns is not None)
        self.elapsed_ns += end.at_ns - start.at_ns
        self.process_cpu_ns += end.process_cpu_ns - start.process_cpu_ns
        if self.runqueue_ns is None or start.runqueue_ns is None or end.runqueue_ns is None:
            self.runqueue_ns = None
        else:
            self.runqueue_ns += end.runqueue_ns - start.runqueue_ns
        if self.busy_ns is not None and start.busy_ns is not None and end.busy_ns is not None:
            self.busy_ns += end.busy_ns - start.busy_ns
            self.busy_elapsed_ns += end.at_ns - start.at_ns


@dataclass(frozen=True)
class Reading:
    """All clocks at one moment."""

    at_ns: int
    process_cpu_ns: int
    runqueue_ns: int | None
    busy_ns: int | None
    ident: int
    native_id: int

    @classmethod
    def now(cls, ident: int, native_id: int, *, machine: bool) -> Reading:
        """Return the clocks of a thread, of this process, and of the machine if asked for."""
        runqueue = thread_time(ident, native_id).runqueue_ns
        busy = _busy_ns() if machine else None
        at, cpu = time.perf_counter_ns(), time.process_time_ns()
        return cls(at, cpu, runqueue, busy, ident, native_id)


def thread_cpu_ns(ident: int, native_id: int) -> int | None:
    """Return the CPU time of a thread of this process, without opening a file on Linux."""
    if sys.platform != "linux":
        return thread_time(ident, native_id).cpu_ns
    try:
        # Linux's number of the clock (kernel: include/linux/posix-timers_types.h)
        return time.clock_gettime_ns((~native_id << 3) | 6)
    except OSError:  # the thread has ended
        return None


def _busy_ns(stat: Path = _STAT) -> int | None:
    """Return the busy time of the cores that this process may use."""
    try:
        mine = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        tick = os.sysconf("SC_CLK_TCK")
        lines = [line.split() for line in stat.read_text().splitlines() if line.startswith("cpu")]
    except (OSError, AttributeError, ValueError):
        return None
    ticks = sum(
        int(line[field])
        for line in lines
        if line[0] in mine
        for field in _BUSY
        if field < len(line)
    )
    return ticks * 1_000_000_000 // tick
