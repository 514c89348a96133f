"""CPU and run-queue time of single threads, read from outside them.

A worker never reads these itself: opening a /proc file can cost milliseconds
while another thread holds the GIL. One reader reads all threads per window,
the thread's CPU clock first, since that brings its schedstat up to date.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ThreadTime:
    """Times of one thread since it started; None where the system does not tell."""

    cpu_ns: int | None
    runqueue_ns: int | None
    """Ready to run and waiting for a core. A wait under way is not counted yet."""


def thread_time(ident: int, native_id: int) -> ThreadTime:
    """Return the times of a thread of this process.

    Args:
        ident: `threading.Thread.ident`.
        native_id: `threading.Thread.native_id`.
    """
    cpu: int | None
    try:
        cpu = time.clock_gettime_ns(_cpu_clock(ident, native_id))
    except (AttributeError, OSError):
        cpu = None
    try:
        # on-CPU ns, run-queue ns, timeslices (kernel: Documentation/scheduler/sched-stats)
        fields = Path(f"/proc/self/task/{native_id}/schedstat").read_text().split()
        runqueue = int(fields[1])
    except (OSError, IndexError, ValueError):
        runqueue = None
    return ThreadTime(cpu, runqueue)


def _cpu_clock(ident: int, native_id: int) -> int:
    """Return the id of a thread's CPU clock."""
    # Linux's own number for it (kernel: include/linux/posix-timers_types.h). The POSIX call
    # takes a pointer to the thread, which may have ended and been freed by now.
    linux_clock = (~native_id << 3) | 6
    return linux_clock if sys.platform == "linux" else time.pthread_getcpuclockid(ident)
