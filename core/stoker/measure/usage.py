"""Who used the cores: this process with its children, and everybody else."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

# /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal (proc(5))
_BUSY = (0, 1, 2, 5, 6, 7)


@dataclass(frozen=True)
class Usage:
    """Cores used on average over an interval; None where the system does not tell."""

    own: float
    others: float | None
    pressure: float | None
    """Share of the time that some task of the machine waited for a core (PSI)."""


class UsageMeter:
    """Measures from its making to `read`."""

    def __init__(self, stat: Path = Path("/proc/stat"), psi: Path = Path("/proc/pressure/cpu")):
        self._stat, self._psi = stat, psi
        self._at = time.perf_counter()
        self._own = process_tree_cpu_s()
        self._all = self._busy_s()
        self._stalled = self._stalled_s()

    def read(self, exclude_s: float = 0.0) -> Usage:
        """Return the usage since the start; `exclude_s` of CPU time were ours to measure with."""
        elapsed = max(time.perf_counter() - self._at, 1e-6)
        own_s = max(process_tree_cpu_s() - self._own - exclude_s, 0.0)
        everybody, stalled = self._busy_s(), self._stalled_s()
        others = pressure = None
        if everybody is not None and self._all is not None:
            others = max(everybody - self._all - own_s - exclude_s, 0.0) / elapsed
        if stalled is not None and self._stalled is not None:
            pressure = min((stalled - self._stalled) / elapsed, 1.0)
        return Usage(own_s / elapsed, others, pressure)

    def _busy_s(self) -> float | None:
        """Return the busy time of the cores that this process may use, in core-seconds."""
        try:
            mine = {f"cpu{number}" for number in os.sched_getaffinity(0)}
            lines = self._stat.read_text().splitlines()
            tick = os.sysconf("SC_CLK_TCK")
        except (OSError, AttributeError, ValueError):
            return None
        found = [line.split() for line in lines if line.split(" ", 1)[0] in mine]
        ticks = sum(int(fields[1 + i]) for fields in found for i in _BUSY if i + 1 < len(fields))
        return ticks / tick if found else None

    def _stalled_s(self) -> float | None:
        try:
            some = self._psi.read_text().splitlines()[0]
            return int(some.rsplit("total=", 1)[1]) / 1e6
        except (OSError, IndexError, ValueError):
            return None


def process_tree_cpu_s() -> float:
    """Return the CPU time of this process and its children, ended ones included, in s."""
    total = sum(os.times()[:4])
    for child in psutil.Process().children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.Error:
            continue  # it ended: its parent's account has it now
        total += times.user + times.system
    return total
