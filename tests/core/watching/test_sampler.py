"""The thread that looks at the loop."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from stoker.watching import sampler as sampling
from stoker.watching.figures import Figures, Slot
from stoker.watching.meter import FETCH, NEXT, STEP, Meter
from stoker.watching.sampler import NAME, Sampler, pause_all
from stoker.watching.table import STARTED, Table

from .loaders import burn

LOOKS = 12
_NAMES = ["next", "step", "fetch"]


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == NAME]


@pytest.fixture
def meter() -> Iterator[Meter]:
    table = Table.private()
    table.cells[STARTED] = 1
    yield Meter(table, cost=1.0)
    pause_all()
    assert not threads()


def _looked(meter: Meter, slot: int, work_s: float, work: object = burn) -> Slot:
    """Return what was seen of work in a slot."""
    sampler = Sampler(meter, worker=False)
    sampler.start()
    meter.enter(slot, time.perf_counter_ns())
    until = time.monotonic() + 20.0
    figures = Figures()
    while time.monotonic() < until:
        work(work_s)  # type: ignore[operator]
        figures = Figures()
        figures.add(meter.table)
        if figures.slot(_NAMES[slot]).looks >= LOOKS:
            break
    sampler.stop()
    return figures.slot(_NAMES[slot])


def test_python_holds_the_gil(meter: Meter) -> None:
    seen = _looked(meter, FETCH, 0.05)
    assert seen.looks >= LOOKS
    assert seen.python + seen.held > 0.6 * seen.looks
    assert seen.python > 0


def test_sleep_and_reading_do_not(meter: Meter) -> None:
    # Against Python's share in the same run: a busy machine wakes the sampler late, too.
    burning = _looked(meter, FETCH, 0.05)
    asleep = _looked(meter, NEXT, 0.05, time.sleep)
    assert asleep.looks >= LOOKS
    assert asleep.released / asleep.looks > burning.released / burning.looks + 0.2


def test_hot_places_are_named(meter: Meter) -> None:
    _looked(meter, FETCH, 0.05)
    figures = Figures()
    figures.add(meter.table)
    hottest = max(figures.spots, key=lambda name: figures.spots[name].looks)
    assert "burn" in hottest
    assert "loaders.py" in hottest


def test_a_worker_that_waits_for_work_is_left_out(meter: Meter) -> None:
    sampler = Sampler(meter, worker=True)
    sampler.start()
    meter.enter(STEP, time.perf_counter_ns())
    time.sleep(0.2)
    sampler.stop()
    figures = Figures()
    figures.add(meter.table)
    assert sum(slot.looks for slot in figures.slots.values()) == 0


def test_it_starts_once_and_stops_at_any_time(meter: Meter) -> None:
    sampler = Sampler(meter, worker=False)
    sampler.stop()
    sampler.start()
    sampler.start()
    assert len(threads()) == 1
    assert sampler.alive
    sampler.stop()
    sampler.stop()
    assert not sampler.alive
    assert not threads()
    sampler.start()
    assert len(threads()) == 1


def _wait_until_gone() -> bool:
    until = time.monotonic() + 10.0
    while threads() and time.monotonic() < until:
        time.sleep(0.01)
    return not threads()


def test_it_ends_with_its_meter() -> None:
    made = Meter(Table.private(), cost=1.0)
    sampler = Sampler(made, worker=False)
    sampler.start()
    del made
    gc.collect()
    assert _wait_until_gone()


def test_it_ends_when_the_loop_shows_no_sign_of_life(
    meter: Meter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "_IDLE_S", 0.05)
    sampler = Sampler(meter, worker=False)
    sampler.start()
    assert _wait_until_gone()
    assert not sampler.alive  # so that the next batch starts it again


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_process_forks_without_it(meter: Meter) -> None:
    sampler = Sampler(meter, worker=False)
    sampler.start()
    child = os.fork()
    if not child:
        os._exit(len(threads()) + len(sampling._running))
    assert not sampler.alive
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not threads()
