"""Cores and memory, by made-up cgroups."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from stoker.measure import host
from stoker.measure.host import available_memory, cores, cpu_quota, local_ranks

Put = Callable[[str, str], None]


@pytest.fixture
def put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Put:
    """Return what writes a file below the made-up cgroup root."""
    monkeypatch.setattr(host.psutil, "virtual_memory", lambda: SimpleNamespace(available=1_000_000))

    def write(name: str, text: str) -> None:
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return write


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cgroup"


@pytest.fixture
def member(tmp_path: Path) -> Callable[[str], Path]:
    """Return what says which cgroups the process is in."""

    def write(text: str = "") -> Path:
        path = tmp_path / "membership"
        path.write_text(text)
        return path

    return write


Member = Callable[[str], Path]


@pytest.mark.parametrize(
    ("text", "quota"),
    [
        ("200000 100000\n", 2.0),
        ("50000 100000", 0.5),
        ("150000", 1.5),
        ("max 100000", None),
        ("max", None),
        ("", None),
        ("0 100000", None),
        ("100000 0", None),
        ("-1 100000", None),
        ("lots 100000", None),
    ],
)
def test_the_quota_of_cgroups_version_2(
    put: Put, root: Path, member: Member, text: str, quota: float | None
) -> None:
    put("cpu.max", text)
    assert cpu_quota(root, member("0::/\n")) == quota


@pytest.mark.parametrize(
    ("quota", "period", "right"),
    [
        ("300000", "100000", 3.0),
        ("-1\n", "100000", None),
        ("0", "100000", None),
        ("x", "100000", None),
        ("300000", "0", None),
        ("300000", "", None),
    ],
)
def test_the_quota_of_cgroups_version_1(
    put: Put, root: Path, member: Member, quota: str, period: str, right: float | None
) -> None:
    put("cpu/cpu.cfs_quota_us", quota)
    put("cpu/cpu.cfs_period_us", period)
    assert cpu_quota(root, member("")) == right


def test_without_cgroups_there_is_no_quota(root: Path, tmp_path: Path) -> None:
    assert cpu_quota(root, tmp_path / "nothing") is None
    assert cores(root, tmp_path / "nothing") == len(os.sched_getaffinity(0))


def test_the_quota_of_the_own_group_and_of_all_above_binds(
    put: Put, root: Path, member: Member
) -> None:
    put("cpu.max", "max 100000")
    put("jobs.slice/cpu.max", "400000 100000")
    put("jobs.slice/one/cpu.max", "max 100000")
    put("other/cpu.max", "100000 100000")
    assert cpu_quota(root, member("0::/jobs.slice/one\n")) == 4.0
    put("jobs.slice/one/cpu.max", "250000 100000")
    assert cpu_quota(root, member("0::/jobs.slice/one\n")) == 2.5
    assert cpu_quota(root, member("0::/not/visible/here\n")) is None


def test_the_own_group_in_version_1_is_found_by_its_controller(
    put: Put, root: Path, member: Member
) -> None:
    for group, quota in (("docker/a", "700000"), ("docker/b", "200000")):
        put(f"cpu/{group}/cpu.cfs_quota_us", quota)
        put(f"cpu/{group}/cpu.cfs_period_us", "100000")
    own = "5:memory:/docker/b\n4:cpu,cpuacct:/docker/a\n1:name=systemd:/docker/b\n"
    assert cpu_quota(root, member(own)) == 7.0


def test_cores_are_those_of_the_affinity_capped_by_the_quota(
    put: Put, root: Path, member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    put("cpu.max", "250000 100000")
    assert cores(root, member("")) == 2.5
    put("cpu.max", "6400000 100000")
    assert cores(root, member("")) == 8.0


def test_cores_are_counted_where_there_is_no_affinity(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert cores(root, tmp_path / "nothing") == 6.0
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cores(root, tmp_path / "nothing") == 1.0


def test_memory_is_what_is_free_where_no_group_limits_it(
    put: Put, root: Path, member: Member
) -> None:
    assert available_memory(root, member("")) == 1_000_000
    put("memory.max", "max\n")
    put("memory.current", "900000\n")
    assert available_memory(root, member("")) == 1_000_000


@pytest.mark.parametrize(
    ("limit", "used", "left"),
    [("500000", "200000", 300_000), ("500000", "700000", 0), ("9000000", "1", 1_000_000)],
)
def test_memory_is_capped_by_version_2(
    put: Put, root: Path, member: Member, limit: str, used: str, left: int
) -> None:
    put("memory.max", limit)
    put("memory.current", used)
    assert available_memory(root, member("")) == left


def test_memory_is_capped_by_version_1(put: Put, root: Path, member: Member) -> None:
    put("memory/memory.limit_in_bytes", "9223372036854771712")
    put("memory/memory.usage_in_bytes", "900000")
    assert available_memory(root, member("")) == 1_000_000
    put("memory/jobs/memory.limit_in_bytes", "500000")
    put("memory/jobs/memory.usage_in_bytes", "100000")
    assert available_memory(root, member("4:memory:/jobs\n")) == 400_000


def test_pages_of_files_that_were_read_are_not_lost_memory(
    put: Put, root: Path, member: Member
) -> None:
    # After an epoch the cache fills the group; it makes way when memory is asked for.
    put("memory.max", "500000")
    put("memory.current", "500000")
    put("memory.stat", "anon 80000\nfile 420000\ninactive_file 400000\nodd\n")
    assert available_memory(root, member("")) == 400_000
    put("memory.stat", "inactive_file 900000\n")
    assert available_memory(root, member("")) == 500_000
    put("memory/memory.limit_in_bytes", "450000")
    put("memory/memory.usage_in_bytes", "450000")
    put("memory/memory.stat", "inactive_file 0\ntotal_inactive_file 150000\n")
    assert available_memory(root, member("")) == 150_000


def test_this_machine_has_cores_and_memory() -> None:
    assert cores() > 0
    assert available_memory() > 0


@pytest.mark.parametrize(("told", "ranks"), [("4", 4), ("0", 1), ("", 1), ("many", 1), ("-2", 1)])
def test_ranks_of_this_machine(told: str, ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", told)
    assert local_ranks() == ranks
