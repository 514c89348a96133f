"""Workers that are killed, stopped or short of means; sources that block; full memory."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stoker import Pipeline, Quarantine
from stoker.errors import SampleError
from tests.faults.scale import scaled
from tests.faults.stages import Crop, Gated, Hurts, children, environment
from toys import Lists, Numbers


def keys(batches: list[Any]) -> list[int]:
    return [sample["x"] for batch in batches for sample in batch]


def hurting(hurts: Hurts, **options: Any) -> Pipeline:
    how: dict[str, Any] = {"executor": "process", "num_workers": 2}
    stages = Numbers(60), Crop(0.001, **how), hurts, Lists(4, whole=True)
    return Pipeline("hurts", *stages, **options)


def test_S6_a_killed_worker_costs_nothing(tmp_path: Path) -> None:
    for number in range(scaled(2, 10)):
        once = Hurts(
            at=5 * number + 3, once=str(tmp_path / f"{number}"), executor="process", num_workers=2
        )
        with hurting(once) as loader, warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            assert keys(list(loader)) == list(range(60))
        loader.ledger.check()
        assert loader.ledger.delivered == 60
        assert any("SIGKILL" in str(one.message) for one in told)


def test_S6_workers_killed_from_outside_at_any_moment() -> None:
    how: dict[str, Any] = {"executor": "process", "num_workers": 2}
    stages = Numbers(400), Crop(0.002, **how), Lists(4, whole=True)
    killed, others = 0, children()
    with Pipeline("killed", *stages) as loader, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        batches = []
        for number, batch in enumerate(loader):
            batches.append(batch)
            if number % 20 == 10:
                next(iter(children() - others)).kill()
                killed += 1
    assert keys(batches) == list(range(400))
    assert killed == 5
    loader.ledger.check()


def test_S6_a_death_is_noticed_within_a_second(
    record_property: Callable[[str, object], None],
) -> None:
    how: dict[str, Any] = {"executor": "process", "num_workers": 2}
    told: list[float] = []
    slowest, others = 0.0, children()
    with Pipeline("noticed", Numbers(4000), Crop(0.002, **how), Lists(4, whole=True)) as loader:
        batches = iter(loader)
        for _ in range(scaled(2, 20)):
            for _ in range(10):
                next(batches)
            told.clear()
            with warnings.catch_warnings():
                warnings.simplefilter("always")
                warnings.showwarning = lambda *_: told.append(time.monotonic())
                killed = time.monotonic()
                next(iter(children() - others)).kill()
                while not told and time.monotonic() - killed < 20.0:
                    next(batches)
            assert told
            slowest = max(slowest, told[0] - killed)
    assert slowest < 1.0
    record_property("slowest notice, s", round(slowest, 3))


def test_S6_a_sample_that_kills_again_is_named(tmp_path: Path) -> None:
    always = Hurts(at=17, number=int(signal.SIGSEGV), executor="process", num_workers=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begun = time.monotonic()
        with hurting(always) as loader, pytest.raises(SampleError, match="SIGSEGV") as caught:
            list(loader)
        assert time.monotonic() - begun < 20  # within seconds, however slow the machine
        assert (caught.value.stage, caught.value.key) == ("faults.hurts", "17")
        with hurting(always, on_error=Quarantine(1)) as loader:
            assert keys(list(loader)) == [n for n in range(60) if n != 17]
        loader.ledger.check()
        assert loader.ledger.quarantined == 1


def test_B21_a_stopped_worker_is_reported_and_replaced(tmp_path: Path) -> None:
    stops = Hurts(
        at=9,
        number=int(signal.SIGSTOP),
        once=str(tmp_path / "once"),
        executor="process",
        num_workers=2,
    )
    with hurting(stops, worker_timeout=1.0) as loader, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert keys(list(loader)) == list(range(60))
    assert any("stopped" in str(one.message) for one in told)
    loader.ledger.check()


def test_B23_a_source_that_blocks_does_not_hold_close_up() -> None:
    gate = threading.Event()
    stages = Gated(100, closed_at=30, gate=gate, num_workers=1), Lists(4, whole=True)
    loader = Pipeline("blocks", *stages).loader()
    batches = iter(loader)
    got = [next(batches) for _ in range(7)]
    assert keys(got) == list(range(28))
    threading.Timer(0.3, gate.set).start()  # as a time-out of its storage would
    begun = time.monotonic()
    loader.close()
    assert time.monotonic() - begun < 2.0
    loader.ledger.check()


def test_a_consumer_that_stops_stops_the_prefetching() -> None:
    how: dict[str, Any] = {"executor": "process", "num_workers": 2}
    stages = Numbers(4000), Crop(side=100, **how), Lists(4, whole=True)
    with Pipeline("rests", *stages, prefetch_bytes=3_000_000) as loader:
        batches = iter(loader)
        for _ in range(20):
            next(batches)
        read = -1
        while loader.ledger.read != read:  # until nothing moves any more
            read = loader.ledger.read
            time.sleep(0.2)
        # Of 30 kB each, as many as fit: also those that are still in the workers' memory.
        assert read - 80 <= 2 * 3_000_000 / 30_000
        assert loader.flow is not None
        assert loader.flow.peak_bytes <= 1.5 * 3_000_000


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from tests.faults.test_workers import limited
if __name__ == "__main__":
    limited()
"""


def limited() -> None:
    """Load with two process workers; print how many samples came."""
    how: dict[str, Any] = {"executor": "process", "num_workers": 2}
    stages = Numbers(300), Crop(side=200, **how), Lists(4, whole=True)
    with Pipeline("limited", *stages, epochs=2) as loader:
        print(sum(len(keys(list(loader))) for _ in range(2)))


def ran(script: Path, before: list[str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*(before or []), sys.executable, str(script)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_64_open_files_are_enough(tmp_path: Path) -> None:
    script = tmp_path / "limited.py"
    script.write_text(LIMITED)
    done = ran(script)
    assert (done.returncode, done.stdout) == (0, "600\n"), done.stderr


@pytest.mark.slow
def test_S8_a_full_shared_memory_file_system_is_none_of_its_business(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Arrays go through memory that no file system has to have room for."""
    script = tmp_path / "full.py"
    script.write_text(LIMITED.replace("(64, 64)", "(256, 256)"))
    tiny = (
        "mount -t tmpfs -o size=16k tmpfs /dev/shm && "
        '(dd if=/dev/zero of=/dev/shm/full bs=4k count=4 2>/dev/null; true) && exec "$@"'
    )
    alone = ["unshare", "--mount", "sh", "-c", tiny, "sh"]
    if not shutil.which("unshare") or ran(Path("-c"), [*alone, "true"]).returncode:
        pytest.skip("no mount namespace can be made here")
    done = ran(script, alone)
    assert (done.returncode, done.stdout) == (0, "600\n"), done.stderr
    assert "pipe" not in done.stderr
    record_property("its shared memory file system", "full, 16 kB")
