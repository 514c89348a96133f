"""Snapshots of all counters, and the report between two of them.

Counters only rise, so a window is the difference of two snapshots. What the
system does not tell is None ("unknown"), never 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from stoker.measure.meter import Totals


@dataclass(frozen=True)
class StageFacts:
    """What stands beside a stage's counters: it does not change while a loader lives."""

    name: str
    kind: str
    segment: int
    executor: str
    num_workers: int


@dataclass(frozen=True)
class SegmentCounters:
    """Counters of a segment's workers, summed, in ns since they started."""

    input_wait_ns: int = 0
    output_wait_ns: int = 0
    runqueue_ns: int | None = None
    """Ready and waiting for a core; None where the system does not tell."""
    fill_area: int = 0
    """Integral of the jobs waiting before it, in jobs x ns."""


@dataclass(frozen=True)
class Snapshot:
    """All counters of a loader at one moment."""

    at_ns: int
    process_cpu_ns: int
    """CPU time of this process, all threads, and of its workers' processes."""
    stages: Mapping[str, Totals]
    segments: Mapping[int, SegmentCounters]
    ready_area: int
    """Integral of the finished jobs waiting for the consumer, in jobs x ns."""
    bytes_in_flight: int
    peak_bytes: int


@dataclass(frozen=True)
class StageRow:
    """One stage over a window. Times are per item, in ms."""

    name: str
    kind: str
    segment: int
    executor: str
    num_workers: int
    items: int
    failures: int
    items_per_s: float
    mbytes_per_s: float
    service_ms: float | None
    """Time it takes for an item, without waiting for a core where the system tells that
    (`runqueue_ms`); None without items."""
    p99_ms: float | None
    """99 % of the items took at most this, waiting for a core included."""
    cpu_ms: float | None
    """Time on a core."""
    runqueue_ms: float | None
    """Time ready and waiting for a core; None where the system does not tell."""
    blocked_ms: float | None
    """Time neither on a core nor waiting for one: I/O, locks, the GIL, sleep."""
    data_wait_share: float
    """Share of the workers' time spent waiting for data."""
    output_wait_share: float
    """Share of the workers' time spent waiting for output to be taken."""
    queue_fill: float | None
    """Mean number of jobs that waited before its segment."""


@dataclass(frozen=True)
class Report:
    """What happened between two snapshots."""

    pipeline: str
    window_s: float
    stages: tuple[StageRow, ...]
    ledger: Mapping[str, Any]
    cpu_s: float
    """CPU time of this process and of its workers' processes."""
    unattributed_cpu_s: float
    """CPU time outside stages: the engine, libraries' own threads, whatever else runs here."""
    peak_prefetch_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """Return the report, JSON-able."""
        return asdict(self)

    def __str__(self) -> str:
        from stoker.measure.table import table

        return table(self)


def report_between(
    pipeline: str,
    facts: Sequence[StageFacts],
    before: Snapshot,
    after: Snapshot,
    ledger: Mapping[str, Any],
) -> Report:
    """Return what each stage did between two snapshots."""
    window_ns = max(after.at_ns - before.at_ns, 1)
    totals = {fact.name: after.stages[fact.name] - before.stages[fact.name] for fact in facts}
    rows = [_row(fact, facts, totals, before, after, window_ns) for fact in facts]
    cpu_ns = after.process_cpu_ns - before.process_cpu_ns
    known_ns = sum(total.cpu_ns for total in totals.values())
    return Report(
        pipeline,
        window_ns / 1e9,
        tuple(rows),
        ledger,
        cpu_ns / 1e9,
        max(cpu_ns - known_ns, 0) / 1e9,
        after.peak_bytes,
    )


def _row(
    fact: StageFacts,
    facts: Sequence[StageFacts],
    totals: Mapping[str, Totals],
    before: Snapshot,
    after: Snapshot,
    window_ns: int,
) -> StageRow:
    total = totals[fact.name]
    mine, then = after.segments[fact.segment], before.segments[fact.segment]
    worker_ns = window_ns * fact.num_workers
    items = total.items_in
    # A segment's run-queue time is shared out by the time its stages were at work.
    shared_ns = sum(totals[other.name].wall_ns for other in facts if other.segment == fact.segment)
    runqueue_ns: float | None = None
    if mine.runqueue_ns is not None and then.runqueue_ns is not None and shared_ns:
        waited = mine.runqueue_ns - then.runqueue_ns
        off_core_ns = max(total.wall_ns - total.cpu_ns, 0)
        runqueue_ns = min(waited * total.wall_ns / shared_ns, off_core_ns)
    p99_ns = total.histogram.quantile_ns(0.99)

    def per_item(value_ns: float | None) -> float | None:
        return value_ns / items / 1e6 if items and value_ns is not None else None

    service_ns = total.wall_ns - (runqueue_ns or 0.0)
    return StageRow(
        fact.name,
        fact.kind,
        fact.segment,
        fact.executor,
        fact.num_workers,
        items,
        total.failures,
        items * 1e9 / window_ns,
        total.nbytes * 1e3 / window_ns,
        per_item(service_ns),
        p99_ns / 1e6 if p99_ns is not None else None,
        per_item(total.cpu_ns),
        per_item(runqueue_ns),
        per_item(max(service_ns - total.cpu_ns, 0.0)) if runqueue_ns is not None else None,
        # At least 0: a worker that lost its core between noticing the end of a wait and
        # counting it looked as if it waited on.
        max(mine.input_wait_ns - then.input_wait_ns, 0) / worker_ns,
        max(mine.output_wait_ns - then.output_wait_ns, 0) / worker_ns,
        (mine.fill_area - then.fill_area) / window_ns if fact.executor != "inline" else None,
    )
