"""However it ends, no child, descriptor or shared memory is left."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from processes import python
from stoker import Pipeline
from stoker.loader import Loader
from toys import Add, Lists, Numbers

from .stages import Arrays, Notes, noted


def children() -> list[int]:
    return [child.pid for child in psutil.Process().children()]


def wait_until(true: Any, timeout_s: float = 5.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)
    return bool(true())


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_close_in_the_middle_of_a_long_call_leaves_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    work = Notes(log, sleep_at=(3,), executor="process", num_workers=2)
    before = children()
    open_before = len(os.listdir("/proc/self/fd"))
    with Pipeline("middle", Numbers(200), Arrays(), work, Lists(1, whole=True)) as loader:
        batches = iter(loader)
        kept = [next(batches)[0]["wide"] for _ in range(3)]
        assert wait_until(lambda: any(line.startswith("sleep") for line in noted(log)))
        assert len(children()) == len(before) + 2
        start = time.monotonic()
        loader.close()
        assert time.monotonic() - start < 4
        loader.ledger.check()
    assert children() == before
    assert len(os.listdir("/proc/self/fd")) <= open_before
    assert kept[0].sum() > 0  # what was received stays


def test_a_loader_that_is_lost_ends_its_children(tmp_path: Path) -> None:
    before = children()
    work = Notes(tmp_path / "log", executor="process", num_workers=1)
    loader: Loader | None = Pipeline("lost", Numbers(8), work).loader()
    assert len(list(loader or ())) == 8
    assert len(children()) == len(before) + 1
    loader = None
    gc.collect()
    assert wait_until(lambda: children() == before)


def test_leaving_an_epoch_and_going_on() -> None:
    how: dict[str, Any] = {"executor": "process", "num_workers": 2}
    with Pipeline("leave", Numbers(500), Arrays(**how), Add(**how), Lists(10)) as loader:
        for _ in range(3):
            next(iter(loader))
        assert sum(map(len, loader)) == 500
        loader.ledger.check()


def test_leaving_an_epoch_gives_up_what_takes_long(tmp_path: Path) -> None:
    log = tmp_path / "log"
    work = Notes(log, sleep_at=(2,), executor="process", num_workers=1)
    with Pipeline("long", Numbers(5), work, Lists(1)) as loader:
        assert next(iter(loader)) == [0]
        assert wait_until(lambda: any(line.startswith("sleep") for line in noted(log)))
        start = time.monotonic()
        assert next(iter(loader)) == [0]  # by a fresh child, in the next epoch
        assert time.monotonic() - start < 4
        assert len(opened(log)) == 2


def test_workers_that_are_still_starting_stop_at_once(tmp_path: Path) -> None:
    before = children()
    work = Notes(tmp_path / "log", executor="process", num_workers=2)
    loader = Pipeline("starting", Numbers(3, executor="inline"), work).loader()
    segment = next(segment for segment in loader.segments if segment.executor == "process")
    segment.start()
    assert wait_until(lambda: len(children()) > len(before))
    start = time.perf_counter_ns()
    segment.stop()
    assert segment.join(start + 2_000_000_000) == []
    assert children() == before
    loader.close()


def test_S7_pools_of_one_everywhere_twice() -> None:
    how: dict[str, Any] = {"executor": "process", "num_workers": 1}
    with Pipeline(
        "s7", Numbers(10_000, **how), Add(1, **how), Lists(100, num_workers=1), prefetch_batches=1
    ) as loader:
        for _ in range(2):
            assert [x for batch in loader for x in batch] == list(range(1, 10_001))
        loader.ledger.check()


PARENT = """
import sys, time
from pathlib import Path
from stoker import Pipeline
from toys import Numbers
from tests.core.engine.process.stages import Notes, Arrays

if __name__ == "__main__":
    how = {"executor": "process", "num_workers": 2}
    work = Notes(Path(sys.argv[1]), sleep_at=(5,), **how)
    with Pipeline("parent", Numbers(100), Arrays(**how), work) as loader:
        for sample in loader:
            print(sample["x"], flush=True)
"""


def started(script: Path, log: Path, **how: Any) -> subprocess.Popen[str]:
    """Run a script in a process until both its workers are open and one of them sleeps."""
    parent = subprocess.Popen(
        [sys.executable, str(script), str(log)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])},
        stdout=subprocess.DEVNULL,
        text=True,
        **how,
    )
    assert wait_until(lambda: len(opened(log)) == 2 and "sleep" in log.read_text(), 20)
    return parent


def opened(log: Path) -> list[int]:
    return [int(line.split()[1]) for line in noted(log) if line.startswith("open")]


def test_S9_children_end_with_a_killed_parent_and_a_second_run_works(tmp_path: Path) -> None:
    script, logs = tmp_path / "parent.py", [tmp_path / "one", tmp_path / "two"]
    script.write_text(PARENT)
    for parent in [started(script, log) for log in logs]:
        parent.kill()
        parent.wait()
    pids = [pid for log in logs for pid in opened(log)]
    assert wait_until(lambda: not any(psutil.pid_exists(pid) for pid in pids))
    again = started(script, tmp_path / "three")
    again.kill()
    again.wait()
    shared = Path("/dev/shm")
    assert not (shared.exists() and [path for path in shared.iterdir() if "stoker" in path.name])


def test_ctrl_c_gives_one_keyboard_interrupt(tmp_path: Path) -> None:
    script, log = tmp_path / "parent.py", tmp_path / "log"
    script.write_text(PARENT)
    parent = started(script, log, stderr=subprocess.PIPE, start_new_session=True)
    os.killpg(parent.pid, signal.SIGINT)  # as a terminal does: to all of them
    _, errors = parent.communicate(timeout=20)
    assert errors.count("Traceback (most recent call last)") == 1
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert not any(psutil.pid_exists(pid) for pid in opened(log))


LIMITED = """
import resource, sys, warnings
from stoker import Pipeline
from toys import Numbers
from tests.core.engine.process.stages import Arrays

if __name__ == "__main__":
    what, most = getattr(resource, sys.argv[1]), int(sys.argv[2])
    resource.setrlimit(what, (most, most))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        def wide(**how):
            with Pipeline("limited", Numbers(9), Arrays(nbytes=100_000, **how)) as loader:
                return [bytes(sample["wide"]) for sample in loader]
        assert wide(executor="process", num_workers=2) == wide()
    print(*{str(warning.message) for warning in caught})
"""


def test_S8_without_shared_memory_arrays_go_through_a_pipe(tmp_path: Path) -> None:
    script = tmp_path / "limited.py"
    script.write_text(LIMITED)
    ended = python("-W", "error", str(script), "RLIMIT_FSIZE", "65536")
    assert ended.stderr == ""
    assert "arrays of toy.arrays go through a pipe, which is slower: shared memory" in ended.stdout
    assert "cannot be had: File too large" in ended.stdout


def test_few_file_descriptors_are_enough(tmp_path: Path) -> None:
    script = tmp_path / "limited.py"
    script.write_text(LIMITED)
    ended = python("-W", "error", str(script), "RLIMIT_NOFILE", "64")
    assert (ended.stdout, ended.stderr) == ("\n", "")


def test_too_few_file_descriptors_are_named(tmp_path: Path) -> None:
    script = tmp_path / "limited.py"
    script.write_text(LIMITED)
    ended = python("-W", "error", str(script), "RLIMIT_NOFILE", "7")
    assert ended.returncode == 1
    assert "Too many open files; raise the limit (ulimit -n) or lower num_workers" in ended.stderr
