"""Whatever ends a loader, `close()` is quick, and nothing of ours is left behind."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from stoker import Pipeline
from stoker.errors import SampleError
from tests.faults.scale import scaled
from tests.faults.stages import Crop, children, environment, threads_of_ours
from toys import Lists, Numbers

ROUNDS = scaled(4, 20)
ROUNDS_OF_PROCESSES = scaled(1, 20)
LIMIT_S = 2.0
EXECUTORS = ("thread", "process")


def pipeline(executor: Any, **crop: Any) -> Pipeline:
    cropping = Crop(0.002, executor=executor, num_workers=2, **crop)
    return Pipeline("ends", Numbers(200), cropping, Lists(4, whole=True), epochs=2)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def ends_with_error(executor: str) -> float:
    loader = pipeline(executor, fail_at=30).loader()
    with pytest.raises(SampleError, match="no 30 here"):
        list(loader)
    begun = time.monotonic()
    loader.close()
    return time.monotonic() - begun


def ends_with_break(executor: str) -> float:
    loader = pipeline(executor).loader()
    for number, _ in enumerate(loader):
        if number == 5:
            break
    begun = time.monotonic()
    loader.close()
    loader.close()
    return time.monotonic() - begun


def ends_by_being_lost(executor: str) -> float:
    before = children(), threads_of_ours()  # other tests may have left some
    loader = pipeline(executor).loader()
    next(iter(loader))
    begun = time.monotonic()
    del loader
    gc.collect()
    while (children(), threads_of_ours()) != before and time.monotonic() - begun < LIMIT_S:
        time.sleep(0.005)
    return time.monotonic() - begun


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("ends", [ends_with_error, ends_with_break, ends_by_being_lost])
def test_B23_close_is_quick_and_leaves_nothing(
    ends: Callable[[str], float], executor: str, record_property: Callable[[str, object], None]
) -> None:
    ends(executor)  # whatever is imported and opened once
    before = children(), threads_of_ours(), descriptors()
    slowest = max(ends(executor) for _ in range(ROUNDS))
    assert slowest < LIMIT_S
    deadline = time.monotonic() + LIMIT_S
    while (children(), threads_of_ours(), descriptors()) != before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (children(), threads_of_ours(), descriptors()) == before
    record_property("rounds", ROUNDS)
    record_property("slowest close, s", round(slowest, 3))


SCRIPT = """
import sys, time
from tests.faults.test_shutdown import pipeline
if __name__ == "__main__":
    loader = pipeline(sys.argv[1]).loader()
    try:
        for number, batch in enumerate(loader):
            if number == 3:
                print("works", flush=True)
    except KeyboardInterrupt:
        print("interrupted once", flush=True)
        begun = time.monotonic()
        loader.close()
        print(time.monotonic() - begun, flush=True)
        raise
"""


def started(script: Path, executor: str) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """Return a loading process in a group of its own, and its workers."""
    process = subprocess.Popen(
        [sys.executable, str(script), executor],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=environment(),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "works\n"
    family = psutil.Process(process.pid).children(recursive=True)
    assert len(family) == (2 if executor == "process" else 0)
    return process, family


def gone(family: list[psutil.Process]) -> bool:
    """Whether all workers end, with some patience."""
    return not psutil.wait_procs(family, timeout=LIMIT_S)[1]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    script = tmp_path / "interrupted.py"
    script.write_text(SCRIPT)
    return script


@pytest.mark.parametrize("to", ["group", "parent"])
@pytest.mark.parametrize("executor", EXECUTORS)
def test_ctrl_c_gives_one_clean_interrupt(
    executor: str, to: str, script: Path, record_property: Callable[[str, object], None]
) -> None:
    slowest = 0.0
    for _ in range(ROUNDS_OF_PROCESSES):
        process, family = started(script, executor)
        if to == "group":
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=20)
        assert process.returncode == -signal.SIGINT
        said, close_s = out.splitlines()
        assert said == "interrupted once"
        slowest = max(slowest, float(close_s))
        assert error.count("Traceback") == 1
        assert error.rstrip().endswith("KeyboardInterrupt")
        assert gone(family)
    assert slowest < LIMIT_S
    record_property("rounds", ROUNDS_OF_PROCESSES)
    record_property("slowest close, s", round(slowest, 3))


@pytest.mark.parametrize("to", ["group", "parent"])
def test_sigterm_leaves_no_worker(to: str, script: Path) -> None:
    for _ in range(ROUNDS_OF_PROCESSES):
        process, family = started(script, "process")
        if to == "group":
            os.killpg(process.pid, signal.SIGTERM)
        else:
            process.terminate()
        process.communicate(timeout=20)
        assert process.returncode == -signal.SIGTERM
        assert gone(family)
