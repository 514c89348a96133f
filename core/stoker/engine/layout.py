"""Cuts a chain of stages into segments and says how many workers each gets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from stoker.session import Step
from stoker.stages import (
    BatchMap,
    Executor,
    Gather,
    PooledStage,
    Resource,
    Source,
    Stage,
    StreamSource,
)

# Threads that wait for storage cost little; more than this rarely helps a local disk.
IO_WORKERS = 4

Part = Literal["samples", "batches", "step"]


@dataclass(frozen=True)
class SegmentPlan:
    """Neighbouring stages that share workers: one hand-over for all of them."""

    index: int
    part: Part
    stages: tuple[int, ...]
    executor: Executor
    num_workers: int
    resource: Resource


@dataclass
class Layout:
    """The segments, and why some could not be made."""

    segments: list[SegmentPlan] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass
class _Group:
    """A segment in the making."""

    part: Part
    executor: Executor
    resource: Resource
    stages: list[int]
    wanted: int | None
    """Workers that a stage asked for, None while all are "auto"."""


def cut(stages: Sequence[Stage], names: Sequence[str], cores: float, *, on_cpu: bool) -> Layout:
    """Cut stages into segments: where the way of running, workers or resource change.

    Args:
        stages: all stages, those that the plan put in included.
        names: a unique name for each.
        cores: what this machine offers.
        on_cpu: the step runs on the CPU, so that batch maps "on the device" are work
            like any other and are prefetched too.
    """
    layout = Layout()
    groups: list[_Group] = []
    all_inline = True
    for index, stage in enumerate(stages):
        if isinstance(stage, Step):
            groups.append(_Group("step", "inline", stage.resource, [index], 1))
            continue
        assert isinstance(stage, PooledStage)
        part: Part = "samples"
        if isinstance(stage, (Gather, BatchMap)):
            part = "batches"
        resource = stage.resource
        if resource == "device" and on_cpu:
            resource = "cpu"
        executor = _executor(stage, resource, all_inline)
        all_inline = all_inline and executor == "inline"
        wanted = stage.num_workers if isinstance(stage.num_workers, int) else None
        if isinstance(stage, StreamSource) and wanted not in (None, 1):
            layout.problems.append(
                f"{names[index]}: num_workers={wanted}: a stream is read by one worker, in order; "
                "use an indexed source to read with several"
            )
        last = groups[-1] if groups else None
        if (
            last is not None
            and (last.part, last.executor) == (part, executor)
            and (executor == "inline" or last.resource == resource)
            and (executor == "inline" or None in (wanted, last.wanted) or wanted == last.wanted)
        ):
            last.stages.append(index)
            last.wanted = last.wanted or wanted
        else:
            groups.append(_Group(part, executor, resource, [index], wanted))
    for number, group in enumerate(groups):
        workers = group.wanted or _auto(group, stages, cores)
        if group.executor == "inline":
            workers = 1
        layout.segments.append(
            SegmentPlan(
                number, group.part, tuple(group.stages), group.executor, workers, group.resource
            )
        )
    return layout


def _executor(stage: PooledStage, resource: Resource, all_inline: bool) -> Executor:
    """Return how a stage runs: as it says, else in threads, or as all before it: inline."""
    if stage.executor != "auto":
        return stage.executor
    if resource == "device":
        return "inline"  # in the consumer's thread, whose stream the step uses
    if all_inline and not isinstance(stage, (Source, StreamSource)):
        return "inline"
    return "thread"


def _auto(group: _Group, stages: Sequence[Stage], cores: float) -> int:
    if any(isinstance(stages[i], StreamSource) for i in group.stages) or group.part == "batches":
        return 1
    whole = max(1, math.floor(cores))
    return min(IO_WORKERS, whole) if group.resource == "io" else whole
