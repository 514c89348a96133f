"""Meters, waits and gauges, on times that the tests set."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.measure.meter import Gauge, Meter, Totals, WaitMeter

# -- meters ----------------------------------------------------------------------------


def test_a_meter_adds_up_chunks() -> None:
    meter = Meter()
    meter.add(items_in=4, items_out=3, wall_ns=400, cpu_ns=300, nbytes=64)
    meter.add(items_in=1, items_out=1, wall_ns=1000, cpu_ns=10, nbytes=1)
    meter.failures += 2
    total = Totals.of([meter])
    assert (total.items_in, total.items_out, total.failures) == (5, 4, 2)
    assert (total.wall_ns, total.cpu_ns, total.nbytes) == (1400, 310, 65)
    assert total.histogram.total == 5
    assert total.histogram.counts[total.histogram.counts.index(4)] == 4


def test_a_chunk_without_items_counts_its_time_and_no_event() -> None:
    meter = Meter()
    meter.add(0, 0, 100, 50, 0)
    total = Totals.of([meter])
    assert (total.items_in, total.wall_ns, total.histogram.total) == (0, 100, 0)


CHUNKS = st.lists(st.tuples(*[st.integers(0, 10**6)] * 5), max_size=12)


@given(CHUNKS, CHUNKS)
@settings(max_examples=30, deadline=None)
def test_a_window_is_what_was_added_in_it(before: Any, inside: Any) -> None:
    meter, only_inside = Meter(), Meter()
    for chunk in before:
        meter.add(*chunk)
    earlier = Totals.of([meter])
    for chunk in inside:
        meter.add(*chunk)
        only_inside.add(*chunk)
    window = Totals.of([meter]) - earlier
    right = Totals.of([only_inside])
    assert window.histogram.counts == right.histogram.counts
    for name in ("items_in", "items_out", "wall_ns", "cpu_ns", "nbytes", "failures"):
        assert getattr(window, name) == getattr(right, name)


def test_totals_are_over_all_workers() -> None:
    one, two = Meter(), Meter()
    one.add(1, 1, 10, 5, 2)
    two.add(2, 2, 20, 10, 4)
    total = Totals.of([one, two])
    assert (total.items_in, total.wall_ns, total.cpu_ns, total.nbytes) == (3, 30, 15, 6)
    assert Totals.of([]).items_in == 0


# -- waits -----------------------------------------------------------------------------


def test_a_wait_is_counted_when_it_ends() -> None:
    waits = WaitMeter()
    waits.since_ns = 100
    waits.end(150)
    waits.waits_for_output, waits.since_ns = True, 200
    waits.end(207)
    assert waits.read(10_000) == (50, 7)
    assert waits.since_ns == 0


def test_a_reader_counts_the_wait_under_way() -> None:
    waits = WaitMeter()
    waits.since_ns = 100
    assert waits.read(100) == (0, 0)
    assert waits.read(175) == (75, 0)
    assert waits.read(180) == (80, 0), "reading does not close it"
    waits.end(200)
    waits.waits_for_output, waits.since_ns = True, 300
    assert waits.read(310) == (100, 10)
    assert waits.read(290) == (100, 0), "a reader's clock may be older than the wait"


def test_a_worker_at_work_waits_for_nothing() -> None:
    waits = WaitMeter()
    assert waits.read(10**9) == (0, 0)


class Halfway(WaitMeter):
    """Calls a reader in the middle of `end`, as another thread may."""

    __slots__ = ("readings",)

    def __init__(self) -> None:
        self.readings: list[tuple[int, int]] = []
        super().__init__()

    def __setattr__(self, name: str, value: Any) -> None:
        ready = hasattr(self, "waits_for_output")
        if ready:
            self.readings.append(self.read(150))
        super().__setattr__(name, value)
        if ready:
            self.readings.append(self.read(150))


def test_no_reader_sees_a_wait_twice_or_not_at_all() -> None:
    waits = Halfway()
    waits.since_ns = 100
    waits.readings.clear()
    waits.end(150)
    assert len(waits.readings) == 4
    assert set(waits.readings) == {(50, 0)}


# -- gauges ----------------------------------------------------------------------------


def test_a_gauge_weighs_levels_by_time() -> None:
    gauge = Gauge(1000)
    gauge.change(2, 1100)
    gauge.change(1, 1200)
    gauge.change(-3, 1300)
    assert gauge.area(2000) == 0 * 100 + 2 * 100 + 3 * 100
    assert gauge.mean(2000) == 0.5
    assert (gauge.level, gauge.peak) == (0, 3)


def test_a_stalled_stage_does_not_read_as_full() -> None:
    # Full for 100 ns, then taken from and never filled again: the empty time counts.
    gauge = Gauge(0)
    gauge.change(4, 0)
    gauge.change(-4, 100)
    assert gauge.mean(100) == 4.0
    assert gauge.mean(10_000) == 0.04


def test_a_full_buffer_nobody_takes_from_reads_as_full() -> None:
    gauge = Gauge(0)
    gauge.change(4, 0)
    assert gauge.mean(10_000) == 4.0
    assert gauge.area(20_000) - gauge.area(10_000) == 4 * 10_000


def test_a_source_with_no_puts_reads_as_empty() -> None:
    gauge = Gauge(500)
    assert gauge.area(10**9) == 0
    assert gauge.mean(10**9) == 0.0
    assert gauge.mean(500) == 0.0


def test_reading_a_gauge_changes_nothing() -> None:
    gauge = Gauge(0)
    gauge.change(1, 10)
    for _ in range(3):
        assert gauge.area(110) == 100
    assert gauge.area(5) == 0, "a reader's clock may be older than the change"


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 100)), max_size=20))
@settings(max_examples=50, deadline=None)
def test_the_area_is_that_of_the_steps(changes: list[tuple[int, int]]) -> None:
    gauge, now, level, area, peak = Gauge(0), 0, 0, 0, 0
    for by, after in changes:
        now += after
        area += level * after
        level += by
        peak = max(peak, level)
        gauge.change(by, now)
    assert gauge.area(now) == area
    assert gauge.area(now + 7) == area + 7 * level
    assert (gauge.level, gauge.peak) == (level, peak)
