"""What a run is, as far as it decides the weights: judged before it goes on from a checkpoint."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterator, Mapping
from typing import Any

from stoker.engine.plan import Plan
from stoker.parameters import parameters

# How a stage is run, not what it does.
_FREE = {"num_workers", "executor"}

_repr = reprlib.Repr()
_repr.maxlevel = 10
_repr.maxlist = _repr.maxtuple = _repr.maxdict = _repr.maxset = _repr.maxfrozenset = 50
_repr.maxstring = _repr.maxother = _repr.maxlong = 2000


def identity(plan: Plan) -> dict[str, Any]:
    """Return what has to be the same for a run to go on, JSON-able."""
    options = plan.pipeline.options
    return {
        "pipeline": plan.pipeline.name,
        "seed": options.seed,
        "stages": [_call(stage) for stage in plan.pipeline.stages],
        "samples": plan.samples,
        "in_order": options.in_order,
        "precision": _call(plan.precision),
        "memory": [_call(policy) for policy in plan.memory],
        "device": plan.device.partition(":")[0],
    }


def differences(saved: Mapping[str, Any], present: Mapping[str, Any]) -> Iterator[str]:
    """Yield what differs between a checkpoint's identity and the present one, a line each."""
    for name, now in present.items():
        before = saved.get(name)
        if before == now:
            continue
        if name == "stages" and isinstance(before, list) and len(before) == len(now):
            for old, new in zip(before, now, strict=True):
                if old != new:
                    yield from _stage_differences(old, new)
        elif name == "stages":
            names = [[text.partition("(")[0] for text in each or []] for each in (before, now)]
            yield f"the stages were {', '.join(names[0])} and are {', '.join(names[1])}"
        else:
            yield f"{name} was {_text(before)} and is {_text(now)}"


def _stage_differences(old: str, new: str) -> Iterator[str]:
    # Only the part that differs: a task's text is long.
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    start = max(0, max(old.rfind(" ", 0, same), old.rfind("(", 0, same)) + 1)
    stage = old.partition("(")[0]
    if stage != new.partition("(")[0]:
        yield f"the stage {old} is {new} now"
    else:
        yield f"{stage}: {_cut(old[start:])} is {_cut(new[start:])} now"


def _cut(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else repr(value)


def _call(thing: Any) -> str:
    """Return a stage or policy as its call with all parameters, the same in every process."""
    parts = [
        f"{name}={_plain(getattr(thing, name))}"
        for name in parameters(type(thing))
        if name not in _FREE
    ]
    return f"{thing.name or type(thing).__name__}({', '.join(parts)})"


def _plain(value: Any) -> str:
    named = getattr(value, "__qualname__", None)
    text = named if isinstance(named, str) else _repr.repr(value)
    return re.sub(r" at 0x[0-9a-f]+", "", text)
