"""Makes the parts of the engine that a plan asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from stoker.cache import Cache
from stoker.engine.caching import Desk
from stoker.engine.failures import Failures
from stoker.engine.flow import Flow
from stoker.engine.pace import HOP_NS, PROCESS_HOP_NS, Limits
from stoker.engine.plan import Plan
from stoker.engine.process.segment import ProcessSegment
from stoker.engine.segment import Segment
from stoker.engine.standing import Standing
from stoker.stages import PooledStage


def make_segments(plan: Plan, failures: Failures) -> list[Segment]:
    """Return the plan's segments, not started; the step is the consumer's own."""
    named = list(zip(plan.names, plan.stages, strict=True))
    made: list[Segment] = []
    for part in plan.segments:
        if part.part == "step":
            continue
        before = named[: part.stages[0]]
        stages = [named[i] for i in part.stages]
        make: Callable[..., Segment] = Segment
        if part.executor == "process":
            make = partial(
                ProcessSegment,
                timeout_s=plan.pipeline.options.worker_timeout,
                prefetch_bytes=plan.prefetch_bytes,
            )
        segment = make(
            part.index,
            [(name, stage) for name, stage in stages if isinstance(stage, PooledStage)],
            [(name, stage) for name, stage in before if isinstance(stage, PooledStage)],
            part.executor,
            part.num_workers,
            failures,
            plan.pipeline.options.seed,
        )
        for i in part.stages:
            stage = plan.stages[i]
            if isinstance(stage, Cache):
                upstream = [(n, s) for n, s in named[:i] if isinstance(s, PooledStage)]
                segment.desk = Desk(stage, upstream, plan.samples)
        made.append(segment)
    return made


def make_flow(
    plan: Plan,
    segments: Sequence[Segment],
    epochs: tuple[int, int],
    begin: Standing | None = None,
) -> Flow:
    """Return a flow of epochs [first, last) through the segments, which now serve it.

    Args:
        plan: what is done.
        segments: of the plan, not at work for another flow.
        epochs: first epoch, and the one after the last.
        begin: where in the first epoch to go on.
    """
    parts = {part.index: part for part in plan.segments}
    samples = [s for s in segments if parts[s.index].part == "samples"]
    batches = [s for s in segments if parts[s.index].part == "batches"]
    workers = sum(
        parts[s.index].num_workers for s in samples if parts[s.index].executor != "inline"
    )
    hop_ns = (
        PROCESS_HOP_NS if any(parts[s.index].executor == "process" for s in samples) else HOP_NS
    )
    options = plan.pipeline.options
    desk = next((segment.desk for segment in samples if segment.desk is not None), None)
    if desk is not None:
        desk.open()  # here its faults reach the caller
    flow = Flow(
        (plan.names[0], plan.source),
        plan.gather,
        samples,
        batches,
        Limits(plan.prefetch_bytes, options.prefetch_batches, workers, hop_ns),
        options.in_order,
        options.seed,
        epochs,
        begin,
        plan.share,
        desk,
    )
    for segment in segments:
        segment.waits_for_output = flow.waits_for_output
        segment.deliver_to(flow.mailbox)
    return flow
