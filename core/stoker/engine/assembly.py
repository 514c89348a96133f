"""Makes the parts of the engine that a plan asks for."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.engine.failures import Failures
from stoker.engine.flow import Flow, Limits
from stoker.engine.plan import Plan
from stoker.engine.segment import Segment
from stoker.stages import PooledStage


def make_segments(plan: Plan, failures: Failures) -> list[Segment]:
    """Return the plan's segments, not started; the step is the consumer's own."""
    named = list(zip(plan.names, plan.stages, strict=True))
    made = []
    for part in plan.segments:
        if part.part == "step":
            continue
        before = named[: part.stages[0]]
        stages = [named[i] for i in part.stages]
        made.append(
            Segment(
                part.index,
                [(name, stage) for name, stage in stages if isinstance(stage, PooledStage)],
                [(name, stage) for name, stage in before if isinstance(stage, PooledStage)],
                part.executor,
                part.num_workers,
                failures,
                plan.pipeline.options.seed,
            )
        )
    return made


def make_flow(plan: Plan, segments: Sequence[Segment], epochs: tuple[int, int]) -> Flow:
    """Return a flow of epochs [first, last) through the segments, which now serve it."""
    parts = {part.index: part for part in plan.segments}
    samples = [s for s in segments if parts[s.index].part == "samples"]
    batches = [s for s in segments if parts[s.index].part == "batches"]
    threads = sum(
        parts[s.index].num_workers for s in samples if parts[s.index].executor == "thread"
    )
    options = plan.pipeline.options
    flow = Flow(
        (plan.names[0], plan.source),
        plan.gather,
        samples,
        batches,
        Limits(plan.prefetch_bytes, options.prefetch_batches, threads),
        options.in_order,
        options.seed,
        epochs,
    )
    for segment in segments:
        segment.waits_for_output = flow.waits_for_output
        segment.deliver_to(flow.mailbox)
    return flow
