"""From evidence to a verdict: which stage, which resource, what it costs, what to do."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stoker.analyze import advice
from stoker.analyze.bounds import bounds_without, ceiling_of, ceiling_without
from stoker.analyze.demands import Demand, Group, groups_of
from stoker.analyze.diagnosis import Bound, Ceiling, Diagnosis, Resource
from stoker.analyze.evidence import Cause, Evidence, rate_of

# The consumer waits for data less than this: then it is what binds.
HARDLY_WAITS = 0.05
# Shares of the time at work, in the order in which they are asked (as tried).
RUNQUEUE, BUSY_CPU, BLOCKED, BUSY_GIL = 0.2, 0.9, 0.2, 0.85
# Beyond this it binds, whoever waits for what.
SATURATED_GIL = 0.95
# Cores that code which holds the GIL can use, with an allowance for how it is measured.
ONE_CORE = 1.05
# The job uses nearly all cores that it may; others use so much that it matters.
FULL, TAKEN = 0.88, 0.15
# Two groups that are this close bind together; a gain below this is none.
TIE, NO_GAIN = 0.92, 1.10
# With less than this the windows contradict one another.
STEADY = 0.35
FEWEST_WINDOWS = 2

_OF_CAUSE: dict[Cause, Resource] = {
    "gil": "gil",
    "lock": "lock",
    "sleep": "wait",
    "disk": "io",
    "network": "io",
}


def diagnose(evidence: Evidence) -> Diagnosis:
    """Return what holds a job back.

    Never raises for odd evidence: what cannot be concluded is "undetermined", with the reason.
    """
    rate = evidence.throughput
    if len(evidence.windows) < FEWEST_WINDOWS or rate.value <= 0.0:
        return _undetermined(evidence, "not enough steps were measured", "measure for longer")
    half_width = _unsteadiness(evidence)
    if half_width > STEADY:
        reason = f"throughput varies by ±{half_width:.0%} between windows"
        return _undetermined(evidence, reason, "measure for longer, on a quieter machine")
    groups = groups_of(evidence)
    consumer = groups[-1]
    if consumer.input_wait <= HARDLY_WAITS or len(groups) == 1:
        return _consumer_binds(evidence, groups)
    return _loader_binds(evidence, groups)


def _unsteadiness(evidence: Evidence) -> float:
    """Return the relative half width of the steadiest stage's rate.

    The step's own rate comes in whole batches, which in a slow job are few a window.
    """
    widths = []
    lengths = [report.window_s for report in evidence.windows]
    for rows in zip(*(report.stages for report in evidence.windows), strict=True):
        rate = rate_of([row.items_per_s for row in rows], lengths)
        widths.append((rate.high - rate.low) / (2 * rate.value) if rate.value else math.inf)
    return min(widths)


# -- the step binds --------------------------------------------------------------------


def _consumer_binds(evidence: Evidence, groups: Sequence[Group]) -> Diagnosis:
    consumer = groups[-1]
    stage = consumer.heaviest
    step = consumer.stages[-1]
    facts = [f"{step.name} waits for data {consumer.input_wait:.1%} of the time"]
    if stage is not step:  # inline stages share the consumer's thread and are what takes most
        resource = _resource(evidence, consumer, facts)
        return _bottleneck(evidence, groups, consumer, stage, resource, facts)
    alone = evidence.loader_alone
    if alone is not None:
        times = alone.value / evidence.throughput.value
        facts.append(f"the loader alone delivers {alone.value:,.0f}/s, {times:.1f} times as much")
    resource = "device"
    if not evidence.device_step:
        resource = _resource(evidence, consumer, facts)
        resource = "cores" if resource == "cores" else "device"
    slowed = _slowed(evidence, consumer, step)
    if resource == "cores" and slowed is not None and slowed > 1.15:
        stage = max((s for group in groups for s in group.stages), key=lambda s: s.cpu_ms)
        binding = next(group for group in groups if stage in group.stages)
        return _bottleneck(evidence, groups, binding, stage, resource, facts)
    if slowed is not None and slowed > 1.15:
        resource = "interference"
        facts.append(f"the step takes {slowed:.2f} times as long as alone: the loader slows it")
    ceiling = ceiling_without(evidence, groups, step.name)
    if alone is not None:
        now = evidence.throughput.value
        bound = max(alone.value / now, 1.0)
        ceiling = Ceiling(bound, max(alone.low / now, 1.0), alone.high / now, "the loader")
    free = evidence.step_alone
    if resource == "interference" and free is not None:  # what binds is the loader: let it go
        now = evidence.throughput.value
        low, high = max(free.low / now, 1.0), free.high / now
        ceiling = Ceiling(max(free.value / now, 1.0), low, high, step.name)
    return Diagnosis(
        "do nothing" if resource != "interference" else "bottleneck",
        step.name,
        resource,
        advice.headline_of_step(step.name, resource, ceiling.value),
        facts,
        advice.for_step(resource, step.name),
        ceiling,
        bounds_without(evidence, groups),
        evidence.throughput,
    )


def _slowed(evidence: Evidence, consumer: Group, step: Demand) -> float | None:
    """Return how much longer the step takes in the job than alone, or None."""
    alone = evidence.step_alone
    if alone is None or not alone.value:
        return None
    return (step.service_ms + step.runqueue_ms) * alone.value / 1e3


# -- the loader binds ------------------------------------------------------------------


def _loader_binds(evidence: Evidence, groups: Sequence[Group]) -> Diagnosis:
    consumer = groups[-1]
    facts = [f"{consumer.stages[-1].name} waits for data {consumer.input_wait:.0%} of the time"]
    candidates = sorted(groups, key=lambda group: group.occupied, reverse=True)
    binding = candidates[0]
    stage = binding.heaviest
    facts.append(
        f"the workers of {stage.name} are occupied {binding.occupied:.0%} of the time "
        f"({binding.num_workers} x {binding.executor})"
    )
    resource = _resource(evidence, binding, facts)
    if resource in ("cores", "outside"):
        stage = max((s for group in groups for s in group.stages), key=lambda s: s.cpu_ms)
        binding = next(group for group in groups if stage in group.stages)
    elif resource == "gil":
        stage = _holder(evidence, groups, facts)
        binding = next(group for group in groups if stage in group.stages)
    return _bottleneck(evidence, groups, binding, stage, resource, facts)


def _holder(evidence: Evidence, groups: Sequence[Group], facts: list[str]) -> Demand:
    """Return the stage that holds the GIL most: whoever waits for it is but its victim."""
    stages = [stage for group in groups if group.shares_gil for stage in group.stages]
    holders = evidence.gil_holders
    if not holders:
        # Who uses more than one core computes in C, without the GIL.
        rate = evidence.throughput.value
        single = [s for s in stages if rate * s.cpu_ms / 1e3 <= ONE_CORE]
        return max(single or stages, key=lambda stage: stage.cpu_ms)
    stage = max(stages, key=lambda stage: holders.get(stage.name, 0.0))
    busy = f", which is held {evidence.gil_busy:.0%} of the time" if evidence.gil_busy else ""
    facts.append(f"{stage.name} has {holders.get(stage.name, 0.0):.0%} of the GIL{busy}")
    return stage


def _resource(evidence: Evidence, group: Group, facts: list[str]) -> Resource:
    """Return the resource that a busy group is short of, by the rules in their order."""
    host = evidence.host
    runqueue, cpu, blocked = (group.share(what) for what in ("runqueue", "cpu", "blocked"))
    own, others = host.own or 0.0, host.others or 0.0
    full = own >= FULL * host.cores
    if runqueue > RUNQUEUE or (full and cpu + runqueue > 0.8):
        if (
            others > TAKEN * host.cores
            and own + others > FULL * host.cores
            and (own < FULL * host.cores)
        ):
            facts.append(
                f"it waits for a core {runqueue:.0%} of its time; other processes use "
                f"{others:.1f} of {host.cores:g} cores, this job {own:.1f}"
            )
            return "outside"
        if full or own + others > 0.8 * host.cores:
            facts.append(
                f"the job uses {own:.1f} of {host.cores:g} cores; waiting for a core {runqueue:.0%}"
            )
            return "cores"
    gil_busy = (evidence.gil_busy or 0.0) if group.shares_gil else 0.0
    if gil_busy > SATURATED_GIL:
        facts.append(f"the GIL is held {gil_busy:.0%} of the time")
        return "gil"
    if blocked > BLOCKED:
        return _of_blocked(evidence, group, blocked, facts)
    if gil_busy > BUSY_GIL and group.num_workers > 1:
        facts.append(f"the GIL is held {gil_busy:.0%} of the time")
        return "gil"
    facts.append(f"it computes {cpu:.0%} of its time at work")
    return "cpu"


def _of_blocked(evidence: Evidence, group: Group, blocked: float, facts: list[str]) -> Resource:
    waits = {cause: share for cause, share in group.causes.items() if cause in _OF_CAUSE}
    if not waits or max(waits.values()) < 0.05:
        facts.append(f"blocked {blocked:.0%} of its time at work; on what could not be seen")
        return "wait"
    cause = max(waits, key=lambda name: waits[name])
    seen = ", ".join(
        f"{name} {share:.0%}"
        for name, share in sorted(group.causes.items(), key=lambda item: -item[1])
        if share >= 0.05
    )
    facts.append(f"blocked {blocked:.0%} of its time at work; seen doing: {seen}")
    return _OF_CAUSE[cause]


def _bottleneck(
    evidence: Evidence,
    groups: Sequence[Group],
    binding: Group,
    stage: Demand,
    resource: Resource,
    facts: list[str],
) -> Diagnosis:
    bounds = bounds_without(evidence, groups)
    own_bound = binding.capacity if resource not in ("cores", "outside", "gil") else None
    if own_bound is not None:
        own_bound = min(own_bound, *(bound.capacity for bound in bounds))
    ceiling = ceiling_without(evidence, groups, stage.name, own_bound)
    if resource == "outside":  # what binds is no stage: let the others go
        ceiling = ceiling_of(bounds, evidence.throughput)
    partners = [other for other in binding.stages if other.service_ms > 0.25 * stage.service_ms]
    if len(partners) > 1:
        total = " + ".join(f"{other.name} {other.service_ms:.3g} ms" for other in partners)
        facts.append(f"they share workers, so they add up: {total} a sample")
    rival = _rival(groups, binding, bounds, resource)
    if rival is not None and ceiling.value < NO_GAIN:
        facts.append(
            f"{stage.name} lets {binding.capacity:,.0f}/s through and {rival.name} "
            f"{rival.capacity:,.0f}/s: they bind together"
        )
        return Diagnosis(
            "tie",
            stage.name,
            resource,
            advice.headline_of_tie(stage.name, rival.name, ceiling.value),
            facts,
            advice.for_tie(stage.name, rival.name),
            ceiling,
            bounds,
            evidence.throughput,
        )
    context = advice.Context(
        stage, binding.num_workers, evidence.host.cores, ceiling, resource, dict(binding.causes)
    )
    return Diagnosis(
        "bottleneck",
        stage.name,
        resource,
        advice.headline(context),
        facts,
        advice.remedies(context),
        ceiling,
        bounds,
        evidence.throughput,
    )


def _rival(
    groups: Sequence[Group], binding: Group, bounds: Sequence[Bound], resource: Resource
) -> Bound | None:
    """Return what binds nearly as tightly as the binding group, or None."""
    if resource in ("cores", "outside", "gil"):
        return None
    names = {stage.name for stage in binding.stages}
    others = [bound for bound in bounds if bound.name not in names]
    if not others or binding.capacity < TIE * others[0].capacity:
        return None
    return others[0]


def _undetermined(evidence: Evidence, reason: str, cure: str) -> Diagnosis:
    bounds = bounds_without(evidence, groups_of(evidence)) if evidence.windows else []
    return Diagnosis(
        "undetermined",
        None,
        "undetermined",
        f"Undetermined: {reason}; {cure}"[:80],
        [reason],
        [cure],
        Ceiling(1.0, 1.0, 1.0, "undetermined"),
        bounds,
        evidence.throughput,
    )
