"""The plan: a pipeline resolved for this machine, before anything starts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from stoker.engine import checks, ranks
from stoker.engine.course import Share
from stoker.engine.layout import SegmentPlan, cut
from stoker.engine.process.refusals import refusals
from stoker.engine.pushdown import push_down, served
from stoker.errors import PlanError, StokerError
from stoker.measure import host as machine
from stoker.parameters import shown
from stoker.pipeline import Pipeline, resolve_policy, unique_names
from stoker.plugins import host
from stoker.policy import Memory, Precision
from stoker.session import Step
from stoker.stages import BatchMap, Caution, Gather, Source, Stage, StreamSource

# A share of available memory for all that is prefetched, where nothing else is said.
PREFETCH_SHARE = 0.1


@dataclass(frozen=True)
class Plan:
    """What will run: stages with those put in, segments with workers, bounds and remarks."""

    pipeline: Pipeline
    device: str
    """Torch device that the step runs on."""
    cores: float
    stages: tuple[Stage, ...]
    names: tuple[str, ...]
    """A unique name for each stage."""
    inserted: frozenset[int]
    """Indices of stages that the plan put in."""
    segments: tuple[SegmentPlan, ...]
    precision: Precision
    memory: tuple[Memory, ...]
    prefetch_bytes: int
    cautions: tuple[str, ...] = ()
    evaluation: Plan | None = None
    """The plan of the evaluating pipeline."""
    samples: int | None = field(default=None)
    """Samples in an epoch before any stage drops some, or None where only reading tells."""
    share: Share | None = None
    """This rank's share of an epoch, None where there is only one rank."""

    @property
    def source(self) -> Source | StreamSource:
        """The first stage."""
        first = self.stages[0]
        assert isinstance(first, (Source, StreamSource))
        return first

    @property
    def gather(self) -> Gather | None:
        """The collate stage, where there is one."""
        return next((stage for stage in self.stages if isinstance(stage, Gather)), None)

    @property
    def notes(self) -> list[str]:
        """What it does of its own accord, beside the stages that it puts in."""
        return [
            f"{name} makes only what {served(stage)} uses (pushdown=False: all)"
            for name, stage in zip(self.names, self.stages, strict=True)
            if served(stage)
        ]

    @property
    def step(self) -> Step | None:
        """The step, where there is one."""
        last = self.stages[-1]
        return last if isinstance(last, Step) else None

    def to_dict(self) -> dict[str, Any]:
        """Return the plan, JSON-able."""
        options = self.pipeline.options
        return {
            "pipeline": self.pipeline.name,
            "device": self.device,
            "cores": self.cores,
            "epochs": options.epochs,
            "seed": options.seed,
            "in_order": options.in_order,
            "precision": self.precision.name,
            "memory": [policy.name for policy in self.memory],
            "prefetch_bytes": self.prefetch_bytes,
            "prefetch_batches": options.prefetch_batches,
            "samples": self.samples,
            "rank": self.share.rank if self.share else 0,
            "world_size": self.share.world_size if self.share else 1,
            "segments": [
                {
                    "index": segment.index,
                    "executor": segment.executor,
                    "num_workers": segment.num_workers,
                    "resource": segment.resource,
                    "stages": [
                        {
                            "name": self.names[i],
                            "kind": self.stages[i].kind,
                            "call": shown(self.stages[i]),
                            "inserted": i in self.inserted,
                            "serves": served(self.stages[i]) or None,
                        }
                        for i in segment.stages
                    ],
                }
                for segment in self.segments
            ],
            "cautions": list(self.cautions),
            "evaluation": self.evaluation.to_dict() if self.evaluation else None,
        }

    def __str__(self) -> str:
        options = self.pipeline.options
        count = "unknown until read" if self.samples is None else f"{self.samples:,}"
        lines = [
            f"plan of {self.pipeline.name}: device {self.device}, {self.cores:g} cores, "
            f"seed {options.seed}, {options.epochs} epochs of {count} samples",
            f"  precision {self.precision.name}; memory "
            + (", ".join(shown(policy) for policy in self.memory) or "as it is"),
        ]
        for segment in self.segments:
            workers = {
                "inline": "in the consumer's thread",
                "thread": f"{segment.num_workers} thread" + "s" * (segment.num_workers > 1),
                "process": f"{segment.num_workers} process" + "es" * (segment.num_workers > 1),
            }[segment.executor]
            lines.append(f"  segment {segment.index} ({segment.resource}, {workers})")
            for i in segment.stages:
                note = "   put in by the plan" if i in self.inserted else ""
                lines.append(f"    {self.stages[i].kind:8} {shown(self.stages[i])}{note}")
                if served(self.stages[i]):
                    lines.append(f"{'':13} makes only what {served(self.stages[i])} uses")
        if self.share is not None:
            lines.append(
                f"  rank {self.share.rank} of {self.share.world_size}: every "
                f"{self.share.world_size}th batch of {self.share.size}"
            )
        order = "in order" if options.in_order else "as they finish"
        lines.append(
            f"  buffers: at most {options.prefetch_batches} batches and "
            f"{self.prefetch_bytes / 2**20:,.0f} MiB prefetched, delivered {order}"
        )
        lines += [f"  caution: {caution}" for caution in self.cautions]
        if self.evaluation is not None:
            lines += [
                "  evaluated by:",
                *(f"  {line}" for line in str(self.evaluation).split("\n")),
            ]
        return "\n".join(lines)


def make_plan(pipeline: Pipeline, *, needs_step: bool = False) -> Plan:
    """Resolve a pipeline for this machine.

    Args:
        pipeline: what to plan.
        needs_step: it is to be run by itself, so it must end in a step.

    Raises:
        PlanError: all that is wrong with it, at once.
    """
    problems: list[str] = []
    cautions: list[str] = []
    problems += checks.options(pipeline)
    device, fault = resolve_device(pipeline)
    problems += fault
    problems += checks.order(pipeline.stages, needs_step)
    problems += checks.stage_parameters(pipeline.stages)
    if problems:  # what follows would stumble over these
        raise PlanError(pipeline.name, problems)

    stages, inserted = put_in(pipeline.stages, device)
    names = tuple(unique_names(stages))
    precision, memory, remarks = _policies(pipeline, device)
    found = checks.ask_stages(stages, names, device)
    if pipeline.options.pushdown and not found.problems:
        stages = push_down(stages, names)
    samples = checks.count_samples(stages, pipeline.options.seed) if not found.problems else None
    problems += found.problems
    cautions += found.cautions
    shared = ranks.remarks(pipeline.options, stages, names, samples)
    for remark in (*remarks, *checks.sizes(pipeline, stages, samples), *shared):
        (cautions if isinstance(remark, Caution) else problems).append(remark)
    evaluation = _evaluation(pipeline, device, problems)
    cores = machine.cores()
    layout = cut(stages, names, cores, on_cpu=device == "cpu")
    problems += layout.problems
    problems += refusals(stages, names)
    if problems:
        raise PlanError(pipeline.name, problems)
    assert precision is not None
    wanted = pipeline.options.prefetch_bytes
    plan = Plan(
        pipeline,
        device,
        cores,
        stages,
        names,
        inserted,
        tuple(layout.segments),
        precision,
        memory,
        wanted or int(machine.available_memory() / machine.local_ranks() * PREFETCH_SHARE),
        tuple(cautions),
        evaluation,
        samples,
        ranks.share_of(pipeline.options, stages),
    )
    for remark in host().check(plan):
        (cautions if isinstance(remark, Caution) else problems).append(remark)
    if problems:
        raise PlanError(pipeline.name, problems)
    return dataclasses.replace(plan, cautions=tuple(cautions))


def resolve_device(pipeline: Pipeline) -> tuple[str, list[str]]:
    """Return the torch device to run on, and what is wrong with the one asked for.

    A pipeline without batches needs no device, and torch is not imported for it.
    """
    wanted = pipeline.options.device
    if wanted == "cpu" or (
        wanted == "auto" and not any(isinstance(stage, Gather) for stage in pipeline.stages)
    ):
        return "cpu", []
    import torch

    if wanted == "auto":
        found = torch.accelerator.current_accelerator(check_available=True)
        return (str(found) if found is not None else "cpu"), []
    try:
        device = torch.device(wanted)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        return "cpu", [f"device={wanted!r} is no torch device: {reason}"]
    there = torch.accelerator.current_accelerator(check_available=True)
    if there is None or there.type != device.type:
        have = f"cpu, {there.type}" if there else "cpu only"
        return "cpu", [f"device={wanted!r} is not available here: this machine has {have}"]
    return str(device), []


def put_in(stages: Sequence[Stage], device: str) -> tuple[tuple[Stage, ...], frozenset[int]]:
    """Return the stages with the pin and copy that batches need on their way, and their indices.

    They stand before the first batch map that lives on the device, and are there on
    the CPU too, metered, where they do nothing.
    """
    gather = next((i for i, stage in enumerate(stages) if isinstance(stage, Gather)), None)
    if gather is None:
        return tuple(stages), frozenset()
    out = list(stages)
    added: list[Stage] = []
    at = gather + 1
    while (
        at < len(out)
        and isinstance(out[at], BatchMap)
        and out[at].resource != "device"
        and out[at].kind not in ("pin", "copy")
    ):
        at += 1
    for kind, name in (("pin", "transfer.pin"), ("copy", "transfer.to_device")):
        there = next((i for i, stage in enumerate(out) if stage.kind == kind), None)
        if there is not None:
            at = there + 1
        elif name in host().stages:
            made: Any = host().stage_class(name)
            added.append(made())
            out.insert(at, added[-1])
            at += 1
    for i, stage in enumerate(out):
        fields = {f.name for f in dataclasses.fields(stage)}
        if stage.kind in ("pin", "copy") and "device" in fields:
            given: Any = stage
            if given.device == "auto":
                replaced = dataclasses.replace(given, device=device)
                added = [replaced if item is stage else item for item in added]
                out[i] = replaced
    return tuple(out), frozenset(
        i for i, stage in enumerate(out) if any(stage is item for item in added)
    )


def _policies(
    pipeline: Pipeline, device: str
) -> tuple[Precision | None, tuple[Memory, ...], list[str]]:
    """Return the policies that a pipeline names, and remarks on them."""
    precision: Precision | None = None
    memory: list[Memory] = []
    try:
        precision = resolve_policy("precision", pipeline.options.precision)
        memory = [resolve_policy("memory", policy) for policy in pipeline.options.memory]
    except StokerError as error:
        return None, (), [str(error)]
    step = pipeline.stages[-1]
    if precision is None or not isinstance(step, Step):
        return precision, tuple(memory), []
    return precision, tuple(memory), list(checks.policies(step, precision, memory, device))


def _evaluation(pipeline: Pipeline, device: str, problems: list[str]) -> Plan | None:
    given = pipeline.options.evaluate
    if given is None:
        return None
    try:
        made = given() if callable(given) else given
        if not isinstance(made, Pipeline):
            problems.append(f"evaluate={given!r} must be a Pipeline, or a function that makes one")
            return None
        return make_plan(made.with_options(device=device), needs_step=True)
    except PlanError as error:
        problems += [f"evaluate: {problem}" for problem in error.problems]
    except StokerError as error:
        problems.append(f"evaluate: {error}")
    except Exception as error:
        problems.append(f"evaluate: {given!r} failed: {type(error).__name__}: {error}")
    return None
