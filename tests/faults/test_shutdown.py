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
from tests.faults.stages import Batches, Crop, Numbers, threads_of_ours

ROUNDS = scaled(4, 20)
LIMIT_S = 2.0
EXECUTORS = ("thread", "process")


def pipeline(executor: Any, **crop: Any) -> Pipeline:
    stages = Numbers(200), Crop(0.002, executor=executor, num_workers=2, **crop), Batches(4)
    return Pipeline("ends", *stages, epochs=2)


def children() -> list[int]:
    return [child.pid for child in psutil.Process().children(recursive=True)]


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
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs come without it
from tests.faults.test_shutdown import pipeline
if __name__ == "__main__":
    with pipeline(sys.argv[1]) as loader:
        try:
            for number, batch in enumerate(loader):
                if number == 3:
                    print("works", flush=True)
        except KeyboardInterrupt:
            print("interrupted once", flush=True)
            raise
"""


@pytest.mark.parametrize("to", ["group", "parent"])
@pytest.mark.parametrize("executor", EXECUTORS)
def test_ctrl_c_gives_one_clean_interrupt(executor: str, to: str, tmp_path: Path) -> None:
    script = tmp_path / "interrupted.py"
    script.write_text(SCRIPT)
    root = Path(__file__).resolve().parents[2]
    paths = [str(root), *(str(root / part) for part in ("core", "plugins", "pipelines"))]
    for _ in range(scaled(1, 10)):
        process = subprocess.Popen(
            [sys.executable, str(script), executor],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "works\n"
        family = psutil.Process(process.pid).children(recursive=True)
        assert len(family) == (2 if executor == "process" else 0)
        begun = time.monotonic()
        if to == "group":
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=20)
        assert time.monotonic() - begun < 2 * LIMIT_S
        assert process.returncode == -signal.SIGINT
        assert out == "interrupted once\n"
        assert error.count("Traceback") == 1
        assert error.rstrip().endswith("KeyboardInterrupt")
        assert not any(child.is_running() for child in family)
