"""What each group of workers spends on a delivered sample: windows summed up.

All figures are per delivered sample, so that stages which filter or expand are
counted by how often they are visited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stoker.analyze.evidence import Cause, Evidence
from stoker.measure.snapshot import Report, StageRow


@dataclass(frozen=True)
class Demand:
    """One stage, per delivered sample, in ms."""

    name: str
    kind: str
    segment: int
    service_ms: float
    """Without waiting for a core."""
    cpu_ms: float
    runqueue_ms: float
    known: bool
    """Whether run-queue time is known; where not it is in the service."""
    p99_ms: float
    typical_ms: float
    """Of one item, run-queue included: what p99 compares with."""
    gil_ms: float = 0.0
    """Of the service, waiting for the GIL."""

    @property
    def blocked_ms(self) -> float:
        """Neither on a core nor waiting for one."""
        return max(self.service_ms - self.cpu_ms, 0.0)


@dataclass(frozen=True)
class Group:
    """Workers that share stages: a segment's threads or processes, or the consumer's thread."""

    segment: int
    num_workers: int
    executor: str
    stages: tuple[Demand, ...]
    input_wait: float
    """Share of the workers' time."""
    output_wait: float
    causes: Mapping[Cause, float]

    @property
    def shares_gil(self) -> bool:
        """Its stages run in this process, and so under its GIL."""
        return self.executor != "process"

    @property
    def occupied(self) -> float:
        """Share of the workers' time that they had work, waiting for a core included."""
        return max(1.0 - self.input_wait - self.output_wait, 0.0)

    @property
    def service_ms(self) -> float:
        """Of all its stages."""
        return sum(stage.service_ms for stage in self.stages)

    @property
    def capacity(self) -> float:
        """Samples/s that its workers could pass on: n / sum of service."""
        return self.without(None)

    def without(self, name: str | None) -> float:
        """Return the capacity if one stage's demand were gone.

        Waits for the GIL are left out like those for a core: the GIL has a bound of its own.
        """
        rest = sum(stage.service_ms - stage.gil_ms for stage in self.stages if stage.name != name)
        return self.num_workers * 1e3 / rest if rest > 1e-9 else float("inf")

    def share(self, what: str) -> float:
        """Return cpu, blocked or runqueue as a share of the time that it had work."""
        parts = {
            "cpu": sum(stage.cpu_ms for stage in self.stages),
            "blocked": sum(stage.blocked_ms for stage in self.stages),
            "runqueue": sum(stage.runqueue_ms for stage in self.stages),
        }
        total = self.service_ms + parts["runqueue"]
        return parts[what] / total if total else 0.0

    @property
    def heaviest(self) -> Demand:
        """The stage that takes most."""
        return max(self.stages, key=lambda stage: stage.service_ms + stage.runqueue_ms)


def groups_of(evidence: Evidence) -> list[Group]:
    """Return the groups of a job, in order; the last one is the consumer's thread."""
    windows = evidence.windows
    last = windows[-1].stages
    delivered = sum(report.stages[-1].items for report in windows)
    seconds = sum(report.window_s for report in windows)
    by_segment: dict[int, list[StageRow]] = {}
    for row in last:
        by_segment.setdefault(row.segment, []).append(row)
    groups: list[Group] = []
    inline: list[Demand] = []
    for segment, rows in by_segment.items():
        demands = tuple(_demand(row.name, windows, delivered) for row in rows)
        if rows[0].executor == "inline" and rows is not by_segment[last[-1].segment]:
            inline += demands
            continue
        demands = _with_gil_waits(demands, evidence.causes.get(segment, {}))
        is_consumer = rows[-1].name == last[-1].name
        name = rows[0].name
        groups.append(
            Group(
                segment,
                rows[0].num_workers,
                rows[0].executor,
                (*inline, *demands) if is_consumer else demands,
                _mean_share(windows, name, "data_wait_share", seconds),
                _mean_share(windows, name, "output_wait_share", seconds),
                evidence.causes.get(segment, {}),
            )
        )
    return groups


def _with_gil_waits(
    demands: tuple[Demand, ...], causes: Mapping[Cause, float]
) -> tuple[Demand, ...]:
    """Return demands with their waits for the GIL, which are seen for a segment as a whole."""
    blocked = sum(demand.blocked_ms for demand in demands)
    at_work = sum(demand.service_ms + demand.runqueue_ms for demand in demands)
    part = min(causes.get("gil", 0.0) * at_work / blocked, 1.0) if blocked else 0.0
    return tuple(replace(demand, gil_ms=part * demand.blocked_ms) for demand in demands)


def _demand(name: str, windows: Sequence[Report], delivered: int) -> Demand:
    rows = [row for report in windows for row in report.stages if row.name == name]
    visits = max(delivered, 1)

    def total(attribute: str) -> float:
        return sum((getattr(row, attribute) or 0.0) * row.items for row in rows)

    items = sum(row.items for row in rows)
    service, runqueue = total("service_ms"), total("runqueue_ms")
    return Demand(
        name,
        rows[-1].kind,
        rows[-1].segment,
        service / visits,
        total("cpu_ms") / visits,
        runqueue / visits,
        any(row.runqueue_ms is not None for row in rows),
        max((row.p99_ms or 0.0 for row in rows), default=0.0),
        (service + runqueue) / items if items else 0.0,
    )


def _mean_share(windows: Sequence[Report], name: str, attribute: str, seconds: float) -> float:
    weighted = sum(
        getattr(row, attribute) * report.window_s
        for report in windows
        for row in report.stages
        if row.name == name
    )
    return weighted / seconds if seconds else 0.0
