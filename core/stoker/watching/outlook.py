"""What the same job would give as a Stoker pipeline: a prediction, with its reason.

Its stages run in threads: nothing is sent between processes, and every core can work on
any sample. Threads share one GIL, so the time that the work holds it is a bound of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from stoker.watching.facts import Facts
from stoker.watching.model import Gain, Model
from stoker.watching.simulate import soft_minimum

_ERROR: Final = 0.15


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
    limits = _limits(facts, fetch, cpu)
    now = job.rate()
    best = max(model.with_workers(model.best_workers or 1).rate(), now)
    rates = [soft_minimum(*limits.values(), _gil_limit(share, fetch)) for share in held]
    slow, fast = min(rates), max(rates)
    gil = _gil_limit(sum(held) / 2, fetch)
    if gil < 1.1 * min(limits.values()) and math.sqrt(slow * fast) < best:
        reason = (
            f"no gain, {_held_by(facts)} holds the GIL {sum(held) / 2:.0%} of the time: "
            "threads would fight for it, and as processes it runs as in a DataLoader"
        )
        return Outlook(_ratio(best, best, now), Gain(1.0, 0.9, 1.05), reason, held)
    binds = "the GIL" if gil < min(limits.values()) else min(limits, key=lambda name: limits[name])
    saved = "stages work in threads beside the step"
    if facts.settings.num_workers:
        moved = facts.send_cpu_s + facts.receive_cpu_s
        saved = f"no transport, which takes {1e3 * moved:.2g} ms CPU a batch"
    reason = f"{saved}; then {binds} would bind"
    return Outlook(_ratio(slow, fast, now), _ratio(slow, fast, best), reason, held)


def _gil_limit(share: float, fetch: float) -> float:
    """Return batches/s that one GIL lets through."""
    return 1.0 / (max(share, 1e-3) * fetch)


def _limits(facts: Facts, fetch: float, cpu: float) -> dict[str, float]:
    """Return what would hold a pipeline in threads back, in batches/s, but for the GIL."""
    cpu_s = cpu + facts.library_cpu_s + facts.step_cpu_s
    # Threads that wait need no core, but there is an end to them.
    limits = {
        "the cores": facts.free_cores / max(cpu_s, 1e-9),
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


def _ratio(slow: float, fast: float, base: float) -> Gain:
    spread = math.exp(_ERROR)
    return Gain(math.sqrt(slow * fast) / base, slow / base / spread, fast / base * spread)
