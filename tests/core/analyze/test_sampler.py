"""The sampler's helper process tells GIL, lock, sleep and computing apart."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.analyze import probe as probe_module
from stoker.analyze import sampler as sampler_module
from stoker.analyze.sampler import Sampler, at_work, runtime_span

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def python() -> None:
    sum(i for i in range(2_000))


def computes() -> None:
    hashlib.sha256(bytes(1_000_000)).digest()


def sleeps() -> None:
    time.sleep(0.02)


LOCK = threading.Lock()


def queues() -> None:
    with LOCK:
        time.sleep(0.004)


@linux
@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "threads", "cause", "held"),
    [
        (python, 2, "gil", True),
        (computes, 1, "running", False),
        (sleeps, 2, "sleep", False),
        (queues, 4, "lock", False),
    ],
)
def test_causes(work: Callable[[], None], threads: int, cause: str, held: bool) -> None:
    stop = threading.Event()

    def repeat() -> None:
        while not stop.is_set():
            work()

    with Sampler() as sampler:
        workers = [threading.Thread(target=repeat) for _ in range(threads)]
        for worker in workers:
            worker.start()
        sampler.watch([worker.native_id or 0 for worker in workers])
        time.sleep(1.5)
        shares, gil = sampler.report()
        stop.set()
        for worker in workers:
            worker.join()
    if sampler.reason:
        assert shares == {}
        pytest.skip(f"not allowed here: {sampler.reason}")  # an accelerator is not the reason
    mean = {
        name: sum(one.get(name, 0.0) for one in shares.values()) / threads
        for name in ("gil", "lock", "sleep", "running", "disk", "network")
    }
    blocked = {name: share for name, share in mean.items() if name != "running"}
    if cause == "running":
        assert mean["running"] > max(blocked.values())
    else:
        assert max(blocked, key=lambda name: blocked[name]) == cause
    if gil is not None:
        assert (gil > 0.5) is held


@linux
def test_the_helper_ends_with_its_user_and_with_its_parent() -> None:
    with Sampler() as sampler:
        helper = sampler._helper
        assert helper is not None
        assert helper.poll() is None
    assert helper.poll() is not None
    # a helper whose parent is killed sees its standard input close
    script = str(Path(probe_module.__file__))
    orphan = subprocess.Popen(
        [sys.executable, "-S", "-E", script, "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert orphan.stdin is not None
    orphan.stdin.close()
    assert orphan.wait(10) == 0
    assert orphan.stdout is not None
    orphan.stdout.close()


def test_without_the_rights_the_shares_are_missing_and_the_reason_is_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mute = tmp_path / "probe.py"
    mute.write_text(
        'import sys\nfor line in sys.stdin: print(\'{"threads": {}, "gil": [0, 0]}\', flush=True)\n'
    )
    monkeypatch.setattr(sampler_module, "__file__", str(tmp_path / "sampler.py"))
    with Sampler() as sampler:
        sampler.watch([1])
        assert sampler.report() == ({}, None)
    assert sampler.reason


def test_a_helper_that_dies_is_a_reason_not_a_hang(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "probe.py").write_text("raise SystemExit(3)\n")
    monkeypatch.setattr(sampler_module, "__file__", str(tmp_path / "sampler.py"))
    with Sampler() as sampler:
        sampler.watch([1])
        assert sampler.report() == ({}, None)
    assert "ended" in sampler.reason


def test_idle_waits_are_taken_out() -> None:
    seen = at_work({"lock": 0.7, "sleep": 0.3}, idle_share=0.7)
    assert seen == pytest.approx({"sleep": 1.0})
    assert at_work({"lock": 0.9, "running": 0.1}, idle_share=0.4)["lock"] > 0.7
    assert at_work({}, 0.5) == {}
    assert at_work({"lock": 1.0}, 1.0) == {}


def test_the_gil_lies_in_the_runtime() -> None:
    span = runtime_span()
    assert span is None or span[1] > 1000
