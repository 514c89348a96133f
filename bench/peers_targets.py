"""What Stoker is held to in `bench.peers`: floors that it must keep, goals that it should reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from bench.common import Interval, Target, ratio
from bench.peers_contestants import (
    CONTESTANTS,
    DALI,
    DATALOADER,
    FAST,
    GRAIN,
    LIMITS,
    STOKER,
    TF_PLAIN,
)
from bench.peers_job import IMAGE, JPEG, PILLOW
from bench.peers_measure import Figures

LEVEL, LEAST = 0.98, 0.95
"""Level with another: a ratio of so much or more, its interval above the second."""


@dataclass(frozen=True)
class Bound(Target):
    """A bound with a goal beyond it, both held to the worse end of the interval."""

    goal: float | None = None

    @property
    def reached(self) -> bool:
        """Whether the whole interval reaches the goal; without one, whether the bound is kept."""
        if self.figure is None or self.goal is None:
            return self.met
        if self.at_most:
            return self.figure.high <= self.goal
        return self.figure.low >= self.goal

    def to_dict(self) -> dict[str, Any]:
        """Return it, JSON-able."""
        beyond = {} if self.goal is None else {"goal": self.goal, "goal_met": self.reached}
        return {**super().to_dict(), **beyond}


@dataclass(frozen=True)
class Level(Bound):
    """A ratio that is to be level with 1 or above it."""

    @property
    def met(self) -> bool:
        """Whether the ratio is `LEVEL` or more, and its interval above `LEAST`."""
        figure = self.figure
        return figure is not None and figure.value >= self.limit and figure.low > LEAST


@dataclass(frozen=True)
class Ahead(Bound):
    """A ratio whose whole interval is to lie above the limit."""

    @property
    def met(self) -> bool:
        """Whether the interval lies above the limit."""
        return self.figure is not None and self.figure.low > self.limit


def fastest(figures: Mapping[str, Figures], names: Sequence[str]) -> str | None:
    """Return the one of some contestants with the highest median, or None where none ran."""
    rates = {
        name: float(numpy.median(figures[name].pictures_per_s)) for name in names if name in figures
    }
    return max(rates, key=rates.__getitem__) if rates else None


def targets(figures: Mapping[str, Figures], missing: Mapping[str, str]) -> list[Target]:
    """Return what Stoker is held to, by this run's figures.

    Args:
        figures: by contestant.
        missing: why others have none.
    """
    pillow, fast = STOKER[IMAGE], STOKER[JPEG]
    pillow_peers = [one.name for one in CONTESTANTS if one.peer and one.how == PILLOW]
    best = fastest(figures, pillow_peers)
    grain_names = [name + FAST for name in GRAIN]
    grain = fastest(figures, grain_names) or grain_names[0]

    def over(mine: str, other: str, what: str = "pictures_per_s") -> tuple[Interval | None, str]:
        for name in (mine, other):
            if name not in figures:
                return None, missing.get(name, f"{name} was not measured")
        return ratio(getattr(figures[mine], what), getattr(figures[other], what)), ""

    def rate(mine: str, other: str, floor: float, goal: float) -> Bound:
        return Bound(f"{mine} over {other}", floor, False, *over(mine, other), goal)

    level = Level(
        f"{pillow} over the best peer with Pillow ({best or 'none'})",
        LEVEL,
        False,
        *over(pillow, best or "a peer with Pillow"),
    )
    return [
        level,
        rate(fast, DATALOADER, 1.5, 1.8),
        rate(fast, DALI, 1.4, 1.8),
        rate(fast, DATALOADER + FAST, 1.15, 1.25),
        Ahead(f"{fast} over {grain}", 1.0, False, *over(fast, grain)),
        Level(f"{fast} over {TF_PLAIN}", LEVEL, False, *over(fast, TF_PLAIN)),
        *(rate(STOKER[how], LIMITS[how], 0.92, 0.95) for how in (IMAGE, JPEG)),
        *(
            Bound(f"{what}, {mine} over {DATALOADER}", 1.0, True, *over(mine, DATALOADER, figure))
            for what, figure in (("time to first batch", "cold_s"), ("peak PSS", "pss_bytes"))
            for mine in (pillow, fast)
        ),
    ]


def lines(targets: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a line for each target of a result: its verdict, its figure, floor and goal."""
    return [f"{_verdict(target):12}  {name}: {_told(target)}" for name, target in targets.items()]


def _verdict(target: Mapping[str, Any]) -> str:
    if target["value"] is None:
        return "not measured"
    return "pass" if target["met"] else "MISS"


def _told(target: Mapping[str, Any]) -> str:
    bound = "at_most" if "at_most" in target else "at_least"
    text = f"{bound.replace('_', ' ')} {target[bound]:g}"
    if target["value"] is None:
        return f"{text}; {target['why']}"
    figure = f"{target['value']:.3f} ({target['low']:.3f} to {target['high']:.3f}), {text}"
    if "goal" not in target:
        return figure
    return f"{figure}; goal {target['goal']:g}: {'pass' if target['goal_met'] else 'miss'}"
