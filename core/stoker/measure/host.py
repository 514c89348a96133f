"""What this machine offers: cores and memory, by affinity and cgroup."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

_CGROUP = Path("/sys/fs/cgroup")


def cores(root: Path = _CGROUP) -> float:
    """Return the cores this process may use: its affinity, capped by the cgroup's quota."""
    try:
        count = float(len(os.sched_getaffinity(0)))
    except AttributeError:
        count = float(os.cpu_count() or 1)
    quota = cpu_quota(root)
    return min(count, quota) if quota else count


def cpu_quota(root: Path = _CGROUP) -> float | None:
    """Return the cgroup's CPU quota in cores (v2 `cpu.max`, v1 `cfs_quota_us`), or None."""
    text = _read(root / "cpu.max")
    if text:
        quota, _, period = text.partition(" ")
        return None if quota == "max" else int(quota) / int(period or 100_000)
    text, period = _read(root / "cpu/cpu.cfs_quota_us"), _read(root / "cpu/cpu.cfs_period_us")
    if text and period and int(text) > 0:
        return int(text) / int(period)
    return None


def available_memory(root: Path = _CGROUP) -> int:
    """Return the bytes this process may still take: free memory, capped by the cgroup."""
    free = int(psutil.virtual_memory().available)
    for limit_file, usage_file in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        limit, usage = _read(root / limit_file), _read(root / usage_file)
        if limit.isdigit() and usage.isdigit():
            free = min(free, max(int(limit) - int(usage), 0))
    return free


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
