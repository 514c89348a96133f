"""Two measurements side by side: is the second slower, beyond what varies?"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.analyze.evidence import Rate, rate_of
from stoker.analyze.recorded import recorded
from stoker.errors import UsageError
from stoker.measure.table import duration, number

ROUNDS = 1000


@dataclass(frozen=True)
class Side:
    """One measurement."""

    name: str
    pipeline: str
    rates: Sequence[float]
    """Samples/s in each window."""
    weights: Sequence[float]
    """Length of each window, s."""
    stages: dict[str, float | None]
    """Service time of each stage, ms an item."""

    @property
    def rate(self) -> Rate:
        """Throughput with its interval."""
        return rate_of(self.rates, self.weights)


@dataclass(frozen=True)
class Comparison:
    """Throughput of B over A, with a 90 % interval."""

    a: Side
    b: Side
    ratio: Rate

    @property
    def slower(self) -> bool:
        """B is slower than A beyond the interval."""
        return self.ratio.high < 1.0

    @property
    def verdict(self) -> str:
        """One line."""
        change = (
            f"{self.ratio.value - 1:+.1%} ({self.ratio.low - 1:+.1%} to {self.ratio.high - 1:+.1%})"
        )
        if self.slower:
            return f"slower: B delivers {change} against A"
        if self.ratio.low > 1.0:
            return f"faster: B delivers {change} against A"
        return f"no difference that can be told: B delivers {change} against A"

    def to_dict(self) -> dict[str, Any]:
        """Return it JSON-able."""
        return {
            "a": self.a.rate.to_dict(),
            "b": self.b.rate.to_dict(),
            "ratio": self.ratio.to_dict(),
            "slower": self.slower,
            "verdict": self.verdict,
            "stages": {
                name: {"a_ms": self.a.stages.get(name), "b_ms": self.b.stages.get(name)}
                for name in dict.fromkeys([*self.a.stages, *self.b.stages])
            },
        }

    def __str__(self) -> str:
        lines = [
            self.verdict,
            f"A {self.a.pipeline}: {number(self.a.rate.value)} samples/s"
            f"    B {self.b.pipeline}: {number(self.b.rate.value)} samples/s",
        ]
        for name, sides in self.to_dict()["stages"].items():
            one, other = sides["a_ms"], sides["b_ms"]
            change = f"{other / one - 1:+.0%}" if one and other else ""
            lines.append(f"  {name:28.28} {duration(one):>9} -> {duration(other):>9}  {change}")
        return "\n".join(lines)


def compare(a: Path, b: Path) -> Comparison:
    """Compare two measurements, each a run folder or the JSON of an analysis.

    Raises:
        UsageError: something that is neither, or of different pipelines.
    """
    one, other = side(a), side(b)
    if one.pipeline != other.pipeline:
        raise UsageError(
            f"{a} is of pipeline {one.pipeline!r} and {b} of {other.pipeline!r}: "
            "compare measurements of one pipeline"
        )
    return Comparison(one, other, ratio_of(one, other))


def ratio_of(a: Side, b: Side) -> Rate:
    """Return throughput B / A with its 90 % interval, from windows drawn anew from both."""
    if not a.rate.value or not b.rate.value:
        raise UsageError(f"{(a if not a.rate.value else b).name} delivered nothing")
    draw = random.Random(0)

    def log_mean(one: Side) -> float:
        indices = [draw.randrange(len(one.rates)) for _ in one.rates]
        total = sum(one.weights[i] for i in indices)
        mean = sum(one.rates[i] * one.weights[i] for i in indices) / total
        return math.log(max(mean, 1e-12))

    logs = sorted(log_mean(b) - log_mean(a) for _ in range(ROUNDS))
    low, high = math.exp(logs[int(0.05 * ROUNDS)]), math.exp(logs[int(0.95 * ROUNDS) - 1])
    return Rate(b.rate.value / a.rate.value, low, high)


def side(path: Path) -> Side:
    """Read a measurement: a run folder, or the JSON that `stoker analyze --json` printed."""
    if path.is_dir():
        evidence = recorded(path).evidence
        stages = {row.name: row.service_ms for row in evidence.windows[-1].stages}
        rates = [report.stages[-1].items_per_s for report in evidence.windows]
        weights = [report.window_s for report in evidence.windows]
        return Side(path.name, evidence.pipeline, rates, weights, stages)
    if not path.is_file():
        raise UsageError(f"{path}: no such run folder or file")
    try:
        found = json.loads(path.read_text())
        rates = [window["samples_per_s"] for window in found["windows"]]
        weights = [window["window_s"] for window in found["windows"]]
        stages = {row["name"]: row["service_ms"] for row in found["stages"]}
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path} is not the JSON of an analysis (stoker analyze P --json > {path.name})"
        ) from error
    return Side(path.name, found["pipeline"], rates, weights, stages)
