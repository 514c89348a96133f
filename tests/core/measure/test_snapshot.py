"""The report between two snapshots, on numbers that can be worked out by hand."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from stoker.measure.meter import Meter, Totals
from stoker.measure.snapshot import (
    Report,
    SegmentCounters,
    Snapshot,
    StageFacts,
    report_between,
)

MS = 1_000_000
LEDGER = {"read": 10, "delivered": 10, "balanced": True}
READ = StageFacts("read.files", "read", 0, "thread", 2)
DECODE = StageFacts("decode.image", "decode", 1, "thread", 4)
AUGMENT = StageFacts("augment.flip", "augment", 1, "thread", 4)
CONSUMER = StageFacts("consumer", "consumer", 2, "inline", 1)
FACTS = [READ, DECODE, AUGMENT, CONSUMER]


def totals(items: int, wall_ms: int, cpu_ms: int, nbytes: int = 0, failures: int = 0) -> Totals:
    meter = Meter()
    meter.add(items, items, wall_ms * MS, cpu_ms * MS, nbytes)
    meter.failures = failures
    return Totals.of([meter])


def snapshot(
    at_ms: int,
    cpu_ms: int,
    stages: tuple[Totals, Totals, Totals, Totals],
    segments: tuple[SegmentCounters, SegmentCounters, SegmentCounters],
    peak: int = 0,
) -> Snapshot:
    return Snapshot(
        at_ms * MS,
        cpu_ms * MS,
        {fact.name: total for fact, total in zip(FACTS, stages, strict=True)},
        dict(enumerate(segments)),
        0,
        0,
        peak,
    )


NOTHING = totals(0, 0, 0)
BEFORE = snapshot(
    1_000,
    500,
    (totals(10, 100, 50, 1_000), totals(10, 100, 100), NOTHING, NOTHING),
    (
        SegmentCounters(100 * MS, 10 * MS, 5 * MS, 40 * MS),
        SegmentCounters(50 * MS, 0, 20 * MS, 0),
        SegmentCounters(0, 0, None, 0),
    ),
    peak=7,
)
AFTER = snapshot(
    3_000,  # a window of 2 s
    6_500,  # 6 s of CPU
    (
        totals(110, 2_100, 250, 4_001_000, failures=3),  # 100 items, 2 s, 0.2 s on a core
        totals(110, 3_100, 2_500),  # 100 items, 3 s, 2.4 s on a core
        totals(100, 1_000, 900),  # 100 items, 1 s, 0.9 s on a core
        totals(100, 500, 400),
    ),
    (
        SegmentCounters(1_100 * MS, 410 * MS, 105 * MS, 6_040 * MS),
        SegmentCounters(4_050 * MS, 400 * MS, 420 * MS, 1_000 * MS),
        SegmentCounters(1_000 * MS, 0, None, 0),
    ),
    peak=9,
)


@pytest.fixture
def report() -> Report:
    return report_between("photos", FACTS, BEFORE, AFTER, LEDGER)


def row(report: Report, name: str) -> Any:
    return next(row for row in report.stages if row.name == name)


def test_the_window_as_a_whole(report: Report) -> None:
    assert (report.pipeline, report.window_s, report.ledger) == ("photos", 2.0, LEDGER)
    assert report.cpu_s == 6.0
    assert report.unattributed_cpu_s == pytest.approx(6.0 - 0.2 - 2.4 - 0.9 - 0.4)
    assert report.peak_prefetch_bytes == 9
    assert [row.name for row in report.stages] == [fact.name for fact in FACTS]


def test_a_stage_with_workers_of_its_own(report: Report) -> None:
    read = row(report, "read.files")
    assert (read.items, read.failures, read.items_per_s) == (100, 3, 50.0)
    assert read.mbytes_per_s == 2.0  # 4 MB in 2 s
    assert read.runqueue_ms == pytest.approx(1.0)  # 100 ms of waiting for a core
    assert read.service_ms == pytest.approx(19.0)  # 2 s less those
    assert read.cpu_ms == pytest.approx(2.0)
    assert read.blocked_ms == pytest.approx(17.0)
    assert read.data_wait_share == 0.25  # 1 s of 2 workers' 4 s
    assert read.output_wait_share == 0.1
    assert read.queue_fill == 3.0
    assert read.p99_ms == pytest.approx(20.0, rel=0.125)
    assert (read.kind, read.segment, read.executor, read.num_workers) == ("read", 0, "thread", 2)


def test_stages_that_share_workers_share_their_waits_by_time_at_work(report: Report) -> None:
    decode, augment = row(report, "decode.image"), row(report, "augment.flip")
    assert decode.runqueue_ms == pytest.approx(3.0)  # 3/4 of 400 ms
    assert augment.runqueue_ms == pytest.approx(1.0)
    assert decode.service_ms == pytest.approx(27.0)
    assert decode.cpu_ms == pytest.approx(24.0)
    assert decode.blocked_ms == pytest.approx(3.0)
    assert augment.service_ms == pytest.approx(9.0)
    assert augment.blocked_ms == pytest.approx(0.0)
    for stage in (decode, augment):
        assert stage.data_wait_share == 0.5
        assert stage.output_wait_share == 0.05
        assert stage.queue_fill == 0.5


def test_time_off_the_core_bounds_what_was_waited_for_one() -> None:
    after = dataclasses.replace(
        AFTER, segments={**AFTER.segments, 1: SegmentCounters(0, 0, 99_000 * MS, 0)}
    )
    augment = row(report_between("p", FACTS, BEFORE, after, LEDGER), "augment.flip")
    assert augment.runqueue_ms == pytest.approx(1.0)  # 1 s at work, 0.9 s of it on a core
    assert augment.service_ms == pytest.approx(augment.cpu_ms)
    assert augment.blocked_ms == pytest.approx(0.0)


def test_what_is_not_told_is_unknown_and_not_zero(report: Report) -> None:
    consumer = row(report, "consumer")
    assert consumer.runqueue_ms is None
    assert consumer.blocked_ms is None
    assert consumer.queue_fill is None
    assert consumer.service_ms == pytest.approx(5.0)
    assert consumer.data_wait_share == 0.5
    for which in (BEFORE, AFTER):
        unknown = {
            index: dataclasses.replace(counters, runqueue_ns=None)
            for index, counters in which.segments.items()
        }
        pair = [
            dataclasses.replace(which, segments=unknown) if one is which else one
            for one in (BEFORE, AFTER)
        ]
        read = row(report_between("p", FACTS, pair[0], pair[1], LEDGER), "read.files")
        assert read.runqueue_ms is None
        assert read.blocked_ms is None


def test_a_window_without_items_has_rates_of_zero_and_unknown_times() -> None:
    later = dataclasses.replace(BEFORE, at_ns=BEFORE.at_ns + 1_000 * MS)
    for stage in report_between("p", FACTS, BEFORE, later, LEDGER).stages:
        assert (stage.items, stage.items_per_s, stage.mbytes_per_s) == (0, 0.0, 0.0)
        assert stage.service_ms is stage.p99_ms is stage.cpu_ms is None
        assert stage.runqueue_ms is stage.blocked_ms is None
        assert (stage.data_wait_share, stage.output_wait_share) == (0.0, 0.0)


def test_a_window_of_no_time_divides_by_nothing() -> None:
    report = report_between("p", FACTS, BEFORE, BEFORE, LEDGER)
    assert report.window_s <= 1e-9
    assert {stage.items_per_s for stage in report.stages} == {0.0}


def test_counters_that_lag_behind_give_no_negative_shares() -> None:
    lagging = {
        index: dataclasses.replace(counters, input_wait_ns=0, output_wait_ns=0)
        for index, counters in BEFORE.segments.items()
    }
    after = dataclasses.replace(AFTER, segments=lagging, process_cpu_ns=BEFORE.process_cpu_ns)
    report = report_between("p", FACTS, BEFORE, after, LEDGER)
    assert {stage.data_wait_share for stage in report.stages} == {0.0}
    assert {stage.output_wait_share for stage in report.stages} == {0.0}
    assert report.unattributed_cpu_s == 0.0


def test_a_report_is_json_and_text(report: Report) -> None:
    told = json.loads(json.dumps(report.to_dict()))
    assert told["stages"][0]["name"] == "read.files"
    assert told["stages"][3]["queue_fill"] is None
    assert str(report).splitlines()[1].startswith("read.files")
