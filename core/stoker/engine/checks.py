"""Plan-time checks: everything that can be known to be wrong before anything starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stoker.cache import Cache
from stoker.parameters import faults
from stoker.pipeline import Pipeline, Quarantine, unique_names
from stoker.policy import Memory, Precision
from stoker.rng import Rng
from stoker.session import Step
from stoker.stages import (
    SAMPLE_STAGES,
    BatchMap,
    Caution,
    Expand,
    Gather,
    Map,
    Mix,
    Source,
    Stage,
    StreamSource,
    Surroundings,
)

if TYPE_CHECKING:
    from stoker.engine.plan import Plan


def options(pipeline: Pipeline) -> Iterator[str]:
    """Yield what is wrong with the pipeline's options."""
    yield from faults(pipeline.options)
    on_error = pipeline.options.on_error
    if isinstance(on_error, Quarantine) and on_error.budget < 0:
        yield f"on_error=Quarantine(budget={on_error.budget}): the budget is at least 0 samples"


def stage_parameters(stages: Sequence[Stage]) -> Iterator[str]:
    """Yield what is wrong with the parameters of all stages."""
    for name, stage in zip(unique_names(stages), stages, strict=True):
        for fault in faults(stage):
            yield f"{name}: {fault}"


def order(stages: Sequence[Stage], needs_step: bool) -> Iterator[str]:
    """Yield what is wrong with the kinds of stages and their order."""
    names = unique_names(stages)
    if not stages or not isinstance(stages[0], (Source, StreamSource)):
        first = names[0] if names else "nothing"
        yield f"the first stage must be a source (read.*), is {first}"
    gather: int | None = None
    for index, (name, stage) in enumerate(zip(names, stages, strict=True)):
        if isinstance(stage, (Source, StreamSource)) and index:
            yield f"{name} is a second source; a pipeline has one, and it comes first"
        if isinstance(stage, Gather):
            if gather is not None:
                yield f"{name} is a second collate stage; a pipeline has one"
            gather = index
        if isinstance(stage, (*SAMPLE_STAGES, Cache)) and gather is not None:
            yield f"{name} works on samples and stands after {names[gather]}; move it before"
        if isinstance(stage, BatchMap) and gather is None:
            yield f"{name} works on batches; put a collate stage before it"
        if isinstance(stage, Step):
            if index != len(stages) - 1:
                yield f"{name} is a step and must be the last stage"
            if gather is None:
                yield f"{name} needs batches; put a collate stage before it"
        if isinstance(stage, Mix):
            yield from _mix(name, stages[:index])
    if needs_step and not any(isinstance(stage, Step) for stage in stages):
        yield (
            "it has no step, so there is nothing to run; end it with step.Train, step.Evaluate "
            "or step.Timed, or iterate over it in a loop of your own"
        )


def _mix(name: str, before: Sequence[Stage]) -> Iterator[str]:
    if before and isinstance(before[0], StreamSource):
        yield f"{name} reads other samples by position, which a stream cannot give"
    if any(not isinstance(stage, Map) for stage in before[1:]):
        yield f"{name} takes other samples through the stages before it: these must all be maps"


@dataclass
class Findings:
    """What stages said about themselves."""

    problems: list[str] = field(default_factory=list)
    cautions: list[str] = field(default_factory=list)


def ask_stages(stages: Sequence[Stage], names: Sequence[str], device: str) -> Findings:
    """Return what each stage finds wrong with itself in its place."""
    found = Findings()
    kind = device.partition(":")[0]
    for index, (name, stage) in enumerate(zip(names, stages, strict=True)):
        try:
            for remark in stage.check(Surroundings(tuple(stages), index, kind)):
                told = found.cautions if isinstance(remark, Caution) else found.problems
                told.append(f"{name}: {remark}")
        except Exception as error:  # a check must not raise; if it does, say so as a problem
            found.problems.append(f"{name}: its check failed: {type(error).__name__}: {error}")
    return found


def count_samples(stages: Sequence[Stage], seed: int, epoch: int = 0) -> int | None:
    """Return the samples of an epoch as the source counts them, or None for streams."""
    source = stages[0]
    if not isinstance(source, Source):
        return None
    return len(source.addresses(epoch, Rng(seed, source.name).move(epoch, 0)))


def samples_are_exact(stages: Sequence[Stage]) -> str:
    """Return why the number of delivered samples is not that of the source, or ""."""
    for name, stage in zip(unique_names(stages), stages, strict=True):
        if isinstance(stage, StreamSource):
            return f"{name} is a stream"
        if isinstance(stage, Expand):
            return f"{name} makes many samples of one"
        if isinstance(stage, Map) and stage.drops:
            return f"{name} may drop samples"
    return ""


def length(plan: Plan) -> int:
    """Return the batches (without a gather: samples) of an epoch, on this rank.

    Raises:
        TypeError: only reading tells, and why.
    """
    why = samples_are_exact(plan.stages)
    if isinstance(plan.pipeline.options.on_error, Quarantine):
        why = why or "failing samples are quarantined"
    if plan.share is not None and plan.samples is not None:
        return plan.share.rounds(plan.samples)
    if not why and plan.samples is not None:
        if plan.gather is None:
            return plan.samples
        batches = plan.gather.batches(plan.samples)
        if batches is not None:
            return batches
        why = f"{plan.gather.name} makes batches by size"
    raise TypeError(f"the length of {plan.pipeline.name} is not known before reading: {why}")


def sizes(pipeline: Pipeline, stages: Sequence[Stage], samples: int | None) -> Iterator[str]:
    """Yield problems of data that is too small for its batches."""
    if samples is None:
        return
    if samples == 0:
        yield f"{stages[0].name} has no samples"
        return
    gather = next((stage for stage in stages if isinstance(stage, Gather)), None)
    if gather is None or samples_are_exact(stages):
        return
    batches = gather.batches(samples)
    size: Any = getattr(gather, "batch_size", None)
    if batches == 0:
        yield (
            f"{gather.name}: batch_size={size} is larger than the data ({samples} samples) and "
            "drop_last=True, so no batch would come; lower batch_size or set drop_last=False"
        )
    step = stages[-1]
    trains = isinstance(step, Step) and step.trains
    lone = isinstance(size, int) and size > 1 and samples % size == 1
    if trains and lone and batches == samples // size + 1:
        yield Caution(
            f"{gather.name}: the last batch of an epoch holds 1 sample, which BatchNorm cannot "
            "train on; set drop_last=True, merge_last=True or another batch_size"
        )


def policies(
    step: Step, precision: Precision, memory: Sequence[Memory], device: str
) -> Iterator[str]:
    """Yield what is wrong with the precision and memory policies."""
    kind = device.partition(":")[0]
    for policy in (precision, *memory):
        if not isinstance(policy, (Precision, Memory)):
            yield f"{policy!r} is no policy; give one of precision.* or memory.*"
            continue
        for problem in (*faults(policy), *policy.check(kind)):
            text = f"{policy.name}: {problem}"
            yield Caution(text) if isinstance(problem, Caution) else text
    task = getattr(step, "task", None)
    if step.trains and task is not None:
        from stoker.train import composition_problems

        yield from composition_problems(task, memory)
