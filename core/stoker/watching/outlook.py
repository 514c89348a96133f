"""What the same job would give as a Stoker pipeline: a prediction, with its reason.

Its stages run in threads: nothing is sent between processes, and every core can work on
any sample. Threads share one GIL, so the time that the work holds it is a bound of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from stoker.watching.facts import Facts
from stoker.watching.model import Gain, Model
from stoker.watching.simulate import soft_minimum

_ERROR: Final = 0.15
# Less than this over a DataLoader that is set right is called no gain.
_WORTH: Final = 1.1
# Work that holds the GIL for more than this share of its time is bound by it.
_BOUND: Final = 0.6


@dataclass(frozen=True)
class Outlook:
    """Predicted throughput as a Stoker pipeline."""

    gain: Gain | None
    """Over this loader as it is now."""
    over_best: Gain | None
    """Over this loader with its best number of workers."""
    reason: str
    gil_share: tuple[float, float] | None
    """Share of the work in which the GIL is held: at least, at most."""

    def to_dict(self) -> dict[str, Any]:
        """Return it JSON-able."""
        return {
            "gain": self.gain.to_dict() if self.gain else None,
            "over_best_settings": self.over_best.to_dict() if self.over_best else None,
            "reason": self.reason,
            "gil_share": list(self.gil_share) if self.gil_share else None,
        }

    def __str__(self) -> str:
        if self.gain is None:
            return f"As a Stoker pipeline: {self.reason}"
        best = f"; {self.over_best} of this loader set right" if self.over_best else ""
        return f"As a Stoker pipeline (predicted): {self.gain}{best}: {self.reason}"


def outlook(facts: Facts, model: Model) -> Outlook:
    """Return what a Stoker pipeline in threads would give."""
    fetch, cpu, job = facts.fetch_s, facts.fetch_cpu_s, model.job
    if model.why_unknown or fetch is None or cpu is None or job is None:
        return Outlook(None, None, f"unknown: {model.why_unknown}", None)
    held = facts.gil_share()
    if facts.wait_share < 0.05:
        return Outlook(Gain(1.0, 1.0, 1.05), None, "no gain, the step is the bottleneck", held)
    if held is None:
        return Outlook(None, None, "unknown: too short to see how long the GIL is held", None)
    count = model.best_workers or 1
    over_now, over_best = [], []
    for cores in (facts.free_cores, facts.cores):  # others may be there or not
        limits = _limits(facts, fetch, cpu, cores)
        now = job.changed(cores=cores).rate()
        best = max(model.with_workers(count).changed(cores=cores).rate(), now)
        for share in held:
            rate = soft_minimum(*limits.values(), _gil_limit(share, fetch))
            over_now.append(max(rate, best) / now)  # as processes it is as a DataLoader
            over_best.append(rate / best)
    gil = _gil_limit(sum(held) / 2, fetch)
    binds = "the GIL" if gil < min(limits.values()) else min(limits, key=lambda name: limits[name])
    if math.sqrt(over_best[-1] * over_best[-2]) < _WORTH:
        reason = f"no gain over the right num_workers, {binds} would bind"
        if sum(held) > 2 * _BOUND and gil < 1.5 * min(limits.values()):
            reason = (
                f"no gain, {_held_by(facts)} holds the GIL {sum(held) / 2:.0%} of the time: "
                "threads would fight for it, and as processes it runs as in a DataLoader"
            )
        return Outlook(_gain(over_now), Gain(1.0, 0.9, 1.1), reason, held)
    saved = "stages work in threads beside the step"
    if facts.settings.num_workers:
        moved = facts.send_cpu_s + facts.receive_cpu_s
        saved = f"no transport, which takes {1e3 * moved:.2g} ms CPU a batch"
    return Outlook(_gain(over_now), _gain(over_best), f"{saved}; then {binds} would bind", held)


def _gil_limit(share: float, fetch: float) -> float:
    """Return batches/s that one GIL lets through."""
    return 1.0 / (max(share, 1e-3) * fetch)


def _limits(facts: Facts, fetch: float, cpu: float, cores: float) -> dict[str, float]:
    """Return what would hold a pipeline in threads back, in batches/s, but for the GIL."""
    cpu_s = cpu + facts.library_cpu_s + facts.step_cpu_s
    # Threads that wait need no core, but there is an end to them.
    limits = {
        "the cores": cores / max(cpu_s, 1e-9),
        "the work": 16.0 * max(facts.cores, 1.0) / fetch,
    }
    if facts.step_s:
        limits["the step"] = 1.0 / facts.step_s
    return limits


def _held_by(facts: Facts) -> str:
    stages = {name: slot for name, slot in facts.work.slots.items() if name not in _OUTER}
    name = max(stages, key=lambda one: stages[one].python + stages[one].held, default="the work")
    return {"dataset": "__getitem__"}.get(name, name)


_OUTER: Final = ("next", "step", "fetch")


def _gain(ratios: Sequence[float]) -> Gain:
    slow, fast, spread = min(ratios), max(ratios), math.exp(_ERROR)
    return Gain(math.sqrt(slow * fast), slow / spread, fast * spread)
