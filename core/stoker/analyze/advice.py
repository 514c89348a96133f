"""What to do about a bottleneck, in words and as options to type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from stoker.analyze.demands import Demand
from stoker.analyze.diagnosis import Ceiling, Resource
from stoker.analyze.evidence import Cause

# A headline has to fit a terminal's line.
WIDTH = 80


@dataclass(frozen=True)
class Context:
    """What a remedy depends on."""

    stage: Demand
    num_workers: int
    cores: float
    ceiling: Ceiling
    resource: Resource
    causes: Mapping[Cause, float]


def headline(at: Context) -> str:
    """Return the line that alone tells what to do."""
    name, gain = at.stage.name, _gain(at.ceiling)
    workers = f"{at.num_workers} worker" + "s" * (at.num_workers != 1)
    wanted = _workers_wanted(at)
    lines: dict[Resource, str] = {
        "wait": f"{name} waits with {workers}: set num_workers={wanted} ({gain})",
        "io": f"{name} waits for storage: set num_workers={wanted} or read less ({gain})",
        "cpu": f"{name} computes with {workers}: set num_workers={wanted} ({gain})",
        "cores": f"All cores are busy, {name} takes most: make it cheaper ({gain})",
        "gil": f"{name} holds the GIL: vectorise it, threads do not help ({gain})",
        "lock": f"{name} waits for a lock: fewer workers, or a finer lock ({gain})",
        "outside": "Other processes take the cores: stop them, or move this job",
    }
    return clipped(lines.get(at.resource, f"{name} binds by {at.resource} ({gain})"))


def remedies(at: Context) -> list[str]:
    """Return what to do, the best first, each with how to apply it."""
    name = at.stage.name
    setting = f"--set {name}.num_workers={_workers_wanted(at)}"
    tail = at.stage.p99_ms > 8 * at.stage.typical_ms > 0
    lines: dict[Resource, list[str]] = {
        "wait": [f"{setting}: its workers wait, so more of them overlap their waits"],
        "io": [
            f"{setting}: reads overlap",
            "read less a sample: smaller files, or shards instead of single files",
        ],
        "cpu": [
            f"{setting}: {at.cores:g} cores are there and not all are used",
            f"a cheaper {at.stage.kind}: --swap {name}=..., stoker stages lists them",
        ],
        "cores": [
            f"a cheaper {at.stage.kind}: {name} takes {at.stage.cpu_ms:.3g} ms of CPU a sample; "
            "--swap, stoker stages lists others",
            "do work once instead of every epoch: store pictures at the size that is used",
            "more workers give nothing: no core is free",
        ],
        "gil": [
            f"move the work of {name} into NumPy, torch or Pillow, which release the GIL",
            "more threads give nothing: one of them computes at a time",
        ],
        "lock": [
            f"--set {name}.num_workers={max(1, at.num_workers - 1)}: fewer workers queue less",
            "hold the lock for less, or give each worker its own (open it in `open`)",
        ],
        "outside": [
            "end what else runs here, or pin this job to cores of its own (taskset, cpuset)",
            "the figures above are those of a machine that is shared",
        ],
    }
    found = lines.get(at.resource, [f"look at {name}"])
    if tail and at.resource in ("wait", "io", "cpu"):
        found = [
            *found,
            f"1 in 100 takes {at.stage.p99_ms:.3g} ms, the mean is {at.stage.typical_ms:.3g}: "
            "--set in_order=false lets the others pass",
        ]
    return found


def headline_of_step(step: str, resource: Resource, ceiling: float) -> str:
    """Return the headline where the step is what binds."""
    if resource == "interference":
        return clipped(f"The loader slows {step}: give it fewer workers")
    what = "the cores" if resource == "cores" else "the device"
    spare = f", the loader could do {ceiling:.1f}x" if ceiling > 1.05 else ""
    return clipped(f"Do nothing: {step} on {what} is the bottleneck{spare}")


def for_step(resource: Resource, step: str) -> list[str]:
    """Return what to do where the step is what binds."""
    if resource == "interference":
        return ["fewer workers: the step needs cores or the GIL that they take"]
    return [f"no change to the loader gives anything; only a faster {step} does"]


def headline_of_tie(one: str, other: str, gain: float) -> str:
    """Return the headline where two things bind together."""
    return clipped(f"Tie: {one} and {other} bind together; one alone gives {gain - 1:.0%}")


def for_tie(one: str, other: str) -> list[str]:
    """Return what to do where two things bind together."""
    return [f"speed up both {one} and {other}: either one alone gives next to nothing"]


def clipped(line: str) -> str:
    """Return a line that fits the width."""
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


def _gain(ceiling: Ceiling) -> str:
    if ceiling.value < 1.05:
        return "no gain alone"
    return f"up to {ceiling.value:.1f}x" if ceiling.value < 100 else "far more"


def _workers_wanted(at: Context) -> int:
    """Return the workers that reach what binds next; those that compute, at most the cores."""
    # A twentieth over is not worth another worker.
    wanted = math.ceil(at.num_workers * min(at.ceiling.value, 16.0) - 0.05 * at.num_workers)
    if at.resource == "cpu":
        wanted = min(wanted, max(math.floor(at.cores), 1))
    return max(wanted, at.num_workers + 1)
