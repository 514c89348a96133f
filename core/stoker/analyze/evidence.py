"""Evidence: everything that was measured about a job, before anything is concluded.

Whoever measures (a pipeline of ours, a recorded run, somebody's own loader, a
simulated machine in a test) fills this in; `diagnose` reads nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from stoker.measure.snapshot import Report

Cause = Literal["running", "gil", "lock", "sleep", "disk", "network", "other"]
"""What a sample of a thread found it doing; "running" is on a core or waiting for one."""


@dataclass(frozen=True)
class Rate:
    """A rate in samples/s with its 90 % interval."""

    value: float
    low: float
    high: float

    def scaled(self, factor: float) -> Rate:
        """Return the rate times a factor."""
        return Rate(self.value * factor, self.low * factor, self.high * factor)

    def to_dict(self) -> dict[str, float]:
        """Return it JSON-able."""
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class HostUse:
    """Who used the machine's cores, on average, in cores; None where the system does not tell."""

    cores: float
    """That this job may use, by affinity and quota."""
    own: float | None = None
    """Used by this process and its children."""
    others: float | None = None
    """Used by everybody else on the cores that this job may use."""
    throttled: float | None = None
    """Share of the time that the cgroup's quota held the job back."""
    pressure: float | None = None
    """Share of the time that some task waited for a core (PSI), in the whole machine."""


@dataclass(frozen=True)
class Evidence:
    """What was measured about one job."""

    pipeline: str
    windows: Sequence[Report]
    """The job as it is, in windows of about a second, warm-up left out."""
    host: HostUse
    causes: Mapping[int, Mapping[Cause, float]] = field(default_factory=dict)
    """What each segment's workers were found doing while at work, as shares of their
    samples; missing where nothing could be sampled."""
    gil_busy: float | None = None
    """Share of the time that the GIL was held."""
    gil_holders: Mapping[str, float] = field(default_factory=dict)
    """Each stage's share of the time that the GIL was held; empty where unknown."""
    loader_alone: Rate | None = None
    """Delivered to a consumer that does nothing."""
    step_alone: Rate | None = None
    """Taken by the step from one cached batch, in samples/s."""
    device_step: bool = True
    """The step runs on a device of its own, so that it needs none of the host's cores."""
    cautions: Sequence[str] = ()
    notes: Sequence[str] = ()
    """What the plan does of its own accord, such as decoding only what is used."""

    @property
    def throughput(self) -> Rate:
        """Samples/s that left the last stage."""
        rates = [report.stages[-1].items_per_s for report in self.windows]
        return rate_of(rates, [report.window_s for report in self.windows])


def rate_of(rates: Sequence[float], weights: Sequence[float], rounds: int = 400) -> Rate:
    """Return the mean rate over windows, with a 90 % bootstrap interval over the windows."""
    if not rates:
        return Rate(0.0, 0.0, 0.0)

    def mean(indices: Sequence[int]) -> float:
        total = sum(weights[i] for i in indices)
        return sum(rates[i] * weights[i] for i in indices) / total if total else 0.0

    everything = range(len(rates))
    draw = random.Random(len(rates))
    means = sorted(mean([draw.choice(everything) for _ in everything]) for _ in range(rounds))
    return Rate(mean(everything), means[int(0.05 * rounds)], means[int(0.95 * rounds) - 1])
