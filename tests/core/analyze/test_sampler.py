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
from stoker.analyze.sampler import Sampled, Sampler, Thread, runtime_span
from stoker.measure.whereabouts import NOWHERE, Whereabouts

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def python() -> None:
    sum(i for i in range(1_000_000))


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

    places = [Whereabouts() for _ in range(threads)]
    begun = threading.Barrier(threads + 1)

    def repeat(place: Whereabouts) -> None:
        place.enter()
        begun.wait()
        while not stop.is_set():
            place.stage[0] = 1
            work()
            place.stage[0] = NOWHERE
            time.sleep(0.0005)  # idle: not to be counted

    with Sampler() as sampler:
        workers = [threading.Thread(target=repeat, args=(place,)) for place in places]
        for worker in workers:
            worker.start()
        begun.wait()
        sampler.watch(
            [
                Thread(worker.native_id or 0, place, ["other", "work"])
                for worker, place in zip(workers, places, strict=True)
            ]
        )
        time.sleep(1.5)
        seen = sampler.report()
        stop.set()
        for worker in workers:
            worker.join()
    if sampler.reason:
        assert seen.causes == {}
        return
    assert set(seen.causes) == {"work"}
    shares = dict(seen.causes["work"])
    computing = shares.pop("running", 0.0)
    if cause == "running":
        assert computing > max(shares.values(), default=0.0)
    else:
        assert max(shares, key=lambda name: shares[name]) == cause
    if seen.gil_busy is not None:
        assert (seen.gil_busy > 0.5) is held
    if held and seen.gil_holders:
        assert seen.gil_holders == {"work": 1.0}


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
        'import sys\nanswer = \'{"threads": {}, "held": {}, "gil": [0, 0]}\'\n'
        "for line in sys.stdin: print(answer, flush=True)\n"
    )
    monkeypatch.setattr(sampler_module, "__file__", str(tmp_path / "sampler.py"))
    with Sampler() as sampler:
        sampler.watch([Thread(1, Whereabouts(), ["work"])])
        assert sampler.report() == Sampled({}, {}, None)
    assert sampler.reason


def test_a_helper_that_dies_is_a_reason_not_a_hang(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "probe.py").write_text("raise SystemExit(3)\n")
    monkeypatch.setattr(sampler_module, "__file__", str(tmp_path / "sampler.py"))
    with Sampler() as sampler:
        sampler.watch([Thread(1, Whereabouts(), ["work"])])
        assert sampler.report() == Sampled({}, {}, None)
    assert "ended" in sampler.reason


def test_the_gil_lies_in_the_runtime() -> None:
    span = runtime_span()
    assert span is None or span[1] > 1000
