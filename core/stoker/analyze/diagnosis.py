"""A diagnosis: what binds, why, what its removal would give, what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from stoker.analyze.evidence import Rate

Resource = Literal[
    "cpu", "cores", "gil", "lock", "io", "bandwidth", "latency", "wait", "link", "device",
    "interference", "outside", "none", "undetermined",
]  # fmt: skip
Verdict = Literal["bottleneck", "tie", "do nothing", "undetermined"]


@dataclass(frozen=True)
class Bound:
    """One limit on the throughput, in samples/s."""

    name: str
    """The stage, or what else binds ("all cores", "the GIL")."""
    resource: Resource
    capacity: float

    def to_dict(self) -> dict[str, Any]:
        """Return it JSON-able."""
        return {"name": self.name, "resource": self.resource, "capacity_per_s": self.capacity}


@dataclass(frozen=True)
class Ceiling:
    """Throughput if what binds were gone, over throughput now, with a 90 % interval."""

    value: float
    low: float
    high: float
    next: str
    """What would bind then."""

    def to_dict(self) -> dict[str, Any]:
        """Return it JSON-able."""
        return {"value": self.value, "low": self.low, "high": self.high, "next": self.next}


@dataclass(frozen=True)
class Diagnosis:
    """What holds a job back."""

    verdict: Verdict
    stage: str | None
    """The stage that binds, or None where no single one does."""
    resource: Resource
    headline: str
    """One line that alone tells what to do, 80 columns at most."""
    evidence: Sequence[str]
    """The figures that the verdict rests on, one a line."""
    advice: Sequence[str]
    """What to do, the best first, each with how to apply it."""
    ceiling: Ceiling
    bounds: Sequence[Bound]
    """All limits that were found, lowest first."""
    throughput: Rate

    @property
    def bottleneck(self) -> dict[str, Any]:
        """Stage, resource and evidence, JSON-able."""
        return {
            "verdict": self.verdict,
            "stage": self.stage,
            "resource": self.resource,
            "evidence": list(self.evidence),
            "headline": self.headline,
            "advice": list(self.advice),
        }
