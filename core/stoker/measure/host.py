"""What this machine offers: cores and memory, by affinity and cgroup.

A limit on any cgroup above this process binds it, so all of them are asked,
in version 2 (`cpu.max`, `memory.max`) and version 1 of the interface.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psutil

_CGROUP = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")


def cores(root: Path = _CGROUP, membership: Path = _MEMBERSHIP) -> float:
    """Return the cores this process may use: its affinity, capped by the cgroups' quotas."""
    try:
        count = float(len(os.sched_getaffinity(0)))
    except AttributeError:
        count = float(os.cpu_count() or 1)
    quota = cpu_quota(root, membership)
    return min(count, quota) if quota else count


def cpu_quota(root: Path = _CGROUP, membership: Path = _MEMBERSHIP) -> float | None:
    """Return the tightest CPU quota of this process's cgroups, in cores, or None.

    Args:
        root: where the cgroups are mounted.
        membership: the file that names this process's cgroups.
    """
    quotas = []
    for group in _groups(root, membership, ""):
        limit, _, period = _read(group / "cpu.max").partition(" ")
        quotas.append(_ratio(limit, period or "100000"))
    for group in _groups(root / "cpu", membership, "cpu"):
        quotas.append(_ratio(_read(group / "cpu.cfs_quota_us"), _read(group / "cpu.cfs_period_us")))
    return min((quota for quota in quotas if quota is not None), default=None)


def available_memory(root: Path = _CGROUP, membership: Path = _MEMBERSHIP) -> int:
    """Return the bytes this process may still take: free memory, capped by its cgroups.

    Pages of files that were read count as used by a cgroup, but make way when memory
    is asked for; without that, every loader would seem to run out after an epoch.
    """
    free = int(psutil.virtual_memory().available)
    for group in _groups(root, membership, ""):
        free = min(free, _left(group, "memory.max", "memory.current", "inactive_file", free))
    for group in _groups(root / "memory", membership, "memory"):
        limit, usage = "memory.limit_in_bytes", "memory.usage_in_bytes"
        free = min(free, _left(group, limit, usage, "total_inactive_file", free))
    return free


def local_ranks() -> int:
    """Return how many ranks share this machine, as torchrun says; 1 where nothing does."""
    told = os.environ.get("LOCAL_WORLD_SIZE", "")
    return max(int(told), 1) if told.isdecimal() else 1


def _left(group: Path, limit: str, usage: str, reclaimable: str, otherwise: int) -> int:
    most, used = _read(group / limit), _read(group / usage)
    if not (most.isdecimal() and used.isdecimal()):
        return otherwise
    stat = dict(line.partition(" ")[::2] for line in _read(group / "memory.stat").splitlines())
    pages = stat.get(reclaimable, "0")
    held = int(used) - (int(pages) if pages.isdecimal() else 0)
    return max(int(most) - max(held, 0), 0)


def _groups(mount: Path, membership: Path, controller: str) -> Iterator[Path]:
    """Yield this process's cgroup and those above it, as far as they are visible here."""
    own = Path("/")
    for line in _read(membership).splitlines():
        _, names, place = line.split(":", 2)
        if controller in names.split(","):
            own = Path(place)
    for group in (own, *own.parents):
        yield mount / group.relative_to("/")


def _ratio(quota: str, period: str) -> float | None:
    if quota.isdecimal() and period.isdecimal() and int(quota) and int(period):
        return int(quota) / int(period)
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, ValueError):
        return ""
