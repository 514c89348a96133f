"""Who used the cores: ours, everybody else's, and what cannot be read."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stoker.measure.usage import UsageMeter, process_tree_cpu_s

BURN = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"


def burn(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_own_work_and_that_of_children_is_ours() -> None:
    meter = UsageMeter()
    begun = time.perf_counter()
    burn(0.2)
    subprocess.run([sys.executable, "-c", BURN], check=True)
    usage = meter.read()
    elapsed = time.perf_counter() - begun
    assert usage.own * elapsed >= 0.45


def test_a_running_child_counts_too() -> None:
    before = process_tree_cpu_s()
    child = subprocess.Popen(
        [sys.executable, "-c", BURN + "\nprint('done', flush=True)\ninput()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    child.stdout.readline()
    grown = process_tree_cpu_s() - before
    child.communicate(b"\n")
    assert grown >= 0.25


def test_others_are_what_the_cores_did_beside_us(tmp_path: Path) -> None:
    tick = os.sysconf("SC_CLK_TCK")
    cores = sorted(os.sched_getaffinity(0))
    stat, psi = tmp_path / "stat", tmp_path / "cpu"

    def write(busy_s: float, stalled_us: int) -> None:
        lines = ["cpu  1 2 3 4"]
        lines += [f"cpu{core} {int(busy_s * tick)} 0 0 999 5 0 0 0" for core in cores]
        lines.append("cpu999 777777 0 0 0 0 0 0 0")  # not ours to use
        stat.write_text("\n".join(lines))
        psi.write_text(f"some avg10=0.00 avg60=0.00 avg300=0.00 total={stalled_us}\n")

    write(10.0, 1_000_000)
    meter = UsageMeter(stat, psi)
    time.sleep(0.2)
    write(20.0, 1_100_000)
    begun_read = time.perf_counter()
    usage = meter.read()
    assert usage.others is not None
    assert usage.others > 9.0 * len(cores)  # 10 s a core within well under a second
    assert usage.pressure is not None
    assert 0.0 < usage.pressure <= 0.5
    assert time.perf_counter() >= begun_read


@pytest.mark.parametrize("text", ["", "nonsense"])
def test_what_cannot_be_read_is_none(text: str, tmp_path: Path) -> None:
    stat, psi = tmp_path / "stat", tmp_path / "cpu"
    if text:
        stat.write_text(text)
        psi.write_text(text)
    usage = UsageMeter(stat, psi).read()
    assert usage.others is None
    assert usage.pressure is None
