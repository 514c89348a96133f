"""Reads all counters of a loader at one moment."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns, process_time_ns

from stoker.engine.consumer import Consumer
from stoker.engine.flow import Flow
from stoker.engine.plan import Plan
from stoker.engine.segment import Segment
from stoker.measure.meter import Totals
from stoker.measure.snapshot import SegmentCounters, Snapshot, StageFacts

# The last stage of a pipeline without a step.
CONSUMER = "consumer"


def stage_facts(plan: Plan) -> list[StageFacts]:
    """Return what is fixed about each stage, the step or the consumer last."""
    facts = [
        StageFacts(plan.names[i], plan.stages[i].kind, part.index, part.executor, part.num_workers)
        for part in plan.segments
        for i in part.stages
    ]
    if plan.step is None:
        facts.append(StageFacts(CONSUMER, CONSUMER, len(plan.segments), "inline", 1))
    return facts


def counters(
    segments: Sequence[Segment],
    consumer: Consumer,
    last: StageFacts,
    flow: Flow | None,
    peak_bytes: int,
) -> Snapshot:
    """Return all counters as they stand now; `last` is the stage that the consumer stands for."""
    now_ns = perf_counter_ns()
    stages = {
        name: Totals.of([state.meters[name] for state in segment.workers])
        for segment in segments
        for name, _ in segment.stages
    }
    sums = {segment.index: segment.counters(now_ns) for segment in segments}
    stages[last.name] = Totals.of([consumer.meter])
    waited_ns, _ = consumer.waits.read(now_ns)
    sums[last.segment] = SegmentCounters(input_wait_ns=waited_ns, runqueue_ns=consumer.runqueue_ns)
    return Snapshot(
        now_ns,
        process_time_ns() + sum(segment.children_cpu_ns for segment in segments),
        stages,
        sums,
        flow.ready.area(now_ns) if flow is not None else 0,
        flow.bytes if flow is not None else 0,
        peak_bytes,
    )
