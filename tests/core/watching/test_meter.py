"""Metering single calls."""

from __future__ import annotations

import threading
import time

import pytest

from stoker.watching import table as t
from stoker.watching.figures import Slot
from stoker.watching.meter import COLLATE, DATASET, FETCH, LOCAL, MARKS, STEP, Meter
from stoker.watching.table import Table

from .loaders import burn


@pytest.fixture
def meter() -> Meter:
    return Meter(Table.private())


def _slot(meter: Meter, name: str) -> Slot:
    slot = Slot()
    slot.add(dict(meter.table.slots())[name])
    return slot


def test_results_and_arguments_pass_through(meter: Meter) -> None:
    assert meter.call(DATASET, sorted, ([2, 3, 1],), {"reverse": True}) == [3, 2, 1]
    slot = _slot(meter, "dataset")
    assert slot.calls == slot.histogram.total == 1
    assert slot.wall_ns == slot.own_wall_ns == slot.longest_ns > 0


def test_time_inside_is_taken_off_the_outer_calls_own(meter: Meter) -> None:
    def outer() -> None:
        burn(0.004)
        meter.call(COLLATE, burn, (0.012,), {})

    meter.call(DATASET, outer, (), {})
    outside, inside = _slot(meter, "dataset"), _slot(meter, "collate")
    assert outside.cpu_ns >= 0.016e9
    assert outside.own_cpu_ns < outside.cpu_ns - 0.011e9
    assert outside.own_wall_ns < outside.wall_ns - inside.wall_ns + 1
    assert inside.own_cpu_ns == inside.cpu_ns


def test_an_error_is_counted_and_goes_on(meter: Meter) -> None:
    with pytest.raises(ZeroDivisionError):
        meter.call(DATASET, lambda: 1 / 0, (), {})
    cells = dict(meter.table.slots())["dataset"]
    assert cells[t.FAILED] == cells[t.CALLS] == 1
    assert meter.current == STEP


def _batch(meter: Meter, items: int, work_s: float) -> bool:
    metered = meter.start_batch()
    for _ in range(items):
        if metered:
            meter.call(DATASET, burn, (work_s,), {})
        elif work_s:
            burn(work_s)
    meter.end_batch(items)
    return metered


def test_batches_that_take_long_are_all_metered(meter: Meter) -> None:
    assert all(_batch(meter, 2, 0.008) for _ in range(5))
    assert meter.cells[t.METERED_ITEMS] == meter.cells[t.ITEMS] == 10


def test_cheap_batches_are_rarely_metered(meter: Meter) -> None:
    metered = sum(_batch(meter, 20, 0.0) for _ in range(400))
    assert 1 <= metered <= 20
    assert meter.cells[t.BATCHES] == 400
    assert meter.cells[t.METERED_BATCHES] == metered
    assert meter.cells[t.ITEMS] == 8000


def test_hooks_that_cost_too_much_are_told(meter: Meter) -> None:
    meter.slots[1] = 7
    meter.start_batch()
    for _ in range(70):
        for _ in range(5):
            meter.call(DATASET, abs, (1,), {})
    meter.end_batch(70)
    assert meter.too_many_hooks


def test_slots_are_found_again_by_name_and_run_out(meter: Meter) -> None:
    first = meter.add_slot("transform[0] Crop")
    assert meter.add_slot("transform[0] Crop") == first
    slots = [meter.add_slot(f"transform[{number}] X") for number in range(t.SLOT_COUNT)]
    assert None in slots
    known = [slot for slot in slots if slot is not None]
    assert len(set(known)) == len(known) == t.SLOT_COUNT - first - 1  # type: ignore[operator]


def test_the_slot_at_an_earlier_moment(meter: Meter) -> None:
    meter.enter(FETCH, 100)
    meter.enter(DATASET, 200)
    meter.enter(FETCH, 300)
    assert [meter.slot_at(moment) for moment in (99, 150, 200, 299, 1000)] == [
        STEP,
        FETCH,
        DATASET,
        DATASET,
        FETCH,
    ]
    for number in range(MARKS):
        meter.enter(COLLATE, 400 + number)
    assert meter.slot_at(350) is None  # that was written over


def test_the_slowest_items_are_remembered(meter: Meter) -> None:
    for index in range(40):
        meter.last_ns = (index * 7) % 40
        meter.note_item(index)
    meter.last_ns = 1000
    meter.note_item("a key")
    head = meter.table.header()
    pairs = {(head[at], head[at + 1]) for at in range(t.SLOW, t.SLOW + 2 * t.SLOW_COUNT, 2)}
    assert {spent for _, spent in pairs} == {1000, *range(33, 40)}
    assert (-1, 1000) in pairs
    assert all(spent == (index * 7) % 40 for index, spent in pairs if index >= 0)


def test_each_thread_has_a_meter_of_its_own(meter: Meter) -> None:
    seen = []
    LOCAL.meter = meter
    try:
        thread = threading.Thread(target=lambda: seen.append(LOCAL.meter))
        thread.start()
        thread.join()
    finally:
        LOCAL.meter = None
    assert seen == [None]


def test_nobody_elses_random_numbers_are_used() -> None:
    import random

    random.seed(4)
    expected = random.random()
    random.seed(4)
    meter = Meter(Table.private())
    for _ in range(50):
        _batch(meter, 3, 0.0)
    assert random.random() == expected
    assert time.perf_counter() > 0
