"""Operational bounds: what each resource would let through, in samples/s.

    each group of workers   X <= n / sum of service      service without run-queue wait
    all cores               X <= cores / CPU per sample  of the whole process tree
    the GIL                 X <= 1 / GIL-held time per sample

(Denning and Buzen, "The operational analysis of queueing network models", 1978.)
The bound that is lowest binds; the others say what binds next.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.analyze.demands import Demand, Group
from stoker.analyze.diagnosis import Bound, Ceiling
from stoker.analyze.evidence import Evidence, Rate

# Relative error of a ratio of bounds, as tried: where one bound stands well below the
# rest, and where they are near one another, so that waits for one hide in another.
CLEAR, CLOSE = 0.08, 0.25
CLEAR_GAP = 1.3


def core_seconds(evidence: Evidence, groups: Sequence[Group]) -> float:
    """Return the CPU time of a delivered sample, in core-seconds, the whole process's."""
    rate = evidence.throughput.value
    if evidence.host.own is not None and rate > 0:
        return evidence.host.own / rate
    stages = [stage for group in groups for stage in group.stages]
    return sum(stage.cpu_ms for stage in stages) / 1e3


def bounds_without(
    evidence: Evidence, groups: Sequence[Group], removed: str | None = None
) -> list[Bound]:
    """Return all bounds, lowest first, as if one stage's demand were gone."""
    found = []
    consumer = groups[-1]
    cpu_s = core_seconds(evidence, groups)
    gil_s = (evidence.gil_busy or 0.0) / max(evidence.throughput.value, 1e-9)
    for group in groups:
        capacity = group.without(removed)
        left = [stage for stage in group.stages if stage.name != removed]
        gone = next((stage for stage in group.stages if stage.name == removed), None)
        if gone is not None:
            cpu_s -= gone.cpu_ms / 1e3
            gil_s *= 1.0 - _gil_part(evidence, gone, groups)
        if capacity == float("inf") or not left:
            continue
        heaviest = max(left, key=lambda stage: stage.service_ms)
        on_device = group is consumer and evidence.device_step
        found.append(Bound(heaviest.name, "device" if on_device else "cpu", capacity))
    if cpu_s > 1e-9:
        found.append(Bound("all cores", "cores", evidence.host.cores / cpu_s))
    if gil_s > 1e-9:
        found.append(Bound("the GIL", "gil", 1.0 / gil_s))
    return sorted(found, key=lambda bound: bound.capacity)


def _gil_part(evidence: Evidence, stage: Demand, groups: Sequence[Group]) -> float:
    """Return a stage's part of the time that the GIL is held: as seen, else its part of the CPU."""
    if evidence.gil_holders:
        return evidence.gil_holders.get(stage.name, 0.0)
    here = [other for group in groups if group.shares_gil for other in group.stages]
    if stage not in here:
        return 0.0
    total = sum(other.cpu_ms for other in here)
    return stage.cpu_ms / total if total else 0.0


def ceiling_without(
    evidence: Evidence, groups: Sequence[Group], removed: str, binds_now: float | None = None
) -> Ceiling:
    """Return what throughput would be over what it is, if a stage's demand were gone.

    Args:
        evidence: of the job.
        groups: its groups of workers.
        removed: the stage.
        binds_now: the bound that binds, samples/s; None takes the lowest.
    """
    after = bounds_without(evidence, groups, removed)
    now = bounds_without(evidence, groups)[0].capacity if binds_now is None else binds_now
    if not after or now <= 0.0:
        return Ceiling(1.0, 1.0, 1.0, "nothing else was measured")
    first = after[0]
    value = max(first.capacity / now, 1.0)
    return _with_interval(value, first.name, after, evidence.throughput)


def ceiling_of(bounds: Sequence[Bound], rate: Rate) -> Ceiling:
    """Return what throughput would be over what it is, if it reached the lowest bound."""
    if not bounds or rate.value <= 0.0:
        return Ceiling(1.0, 1.0, 1.0, "nothing else was measured")
    value = max(bounds[0].capacity / rate.value, 1.0)
    return _with_interval(value, bounds[0].name, bounds, rate)


def _with_interval(value: float, name: str, after: Sequence[Bound], rate: Rate) -> Ceiling:
    clear = len(after) < 2 or after[1].capacity > CLEAR_GAP * after[0].capacity
    error = CLEAR if clear else CLOSE
    noise = (rate.high - rate.low) / (2 * rate.value) if rate.value else 0.0
    half = (error**2 + noise**2) ** 0.5
    # The gain is uncertain, not the fact that removing work does no harm.
    low = max(1.0, 1.0 + (value - 1.0) * (1 - half) - half * (value > 1.05))
    return Ceiling(value, min(low, value), value * (1 + half), name)
