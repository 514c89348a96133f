"""What a change to a watched loader would give, as a ratio with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from stoker.measure.histogram import Histogram, bounds_of
from stoker.watching import table as t
from stoker.watching.facts import Facts
from stoker.watching.simulate import Job

# Relative error of a ratio of two simulations, where the first meets what was measured.
_ERROR: Final = 0.08
# Beyond this factor between measured and simulated, nothing is predicted.
_MISFIT: Final = 2.0
_DRAWS: Final = 200
# A slow sample takes so many times the median, and more than so many of the mean waits
# for a core: those are uneven, too, but seldom longer than a few turns of the others.
_SLOW: Final = 5.0
_WAITS: Final = 20.0
_LONGEST_WAIT_NS: Final = 30e6
# To take a batch from a worker, where there are none yet: as tried, for one in few tensors.
_RECEIVE_S: Final = 0.0003


@dataclass(frozen=True)
class Gain:
    """Throughput after a change over throughput now, with its interval."""

    value: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float]:
        """Return it JSON-able."""
        return {"value": self.value, "low": self.low, "high": self.high}

    def __str__(self) -> str:
        return f"{_times(self.value)}x, {_times(self.low)}-{_times(self.high)}"


def _times(value: float) -> str:
    return f"{value:.2f}" if value < 1.95 else f"{value:.1f}" if value < 20 else f"{value:.0f}"


class Model:
    """The watched loader as a job that can be simulated."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    @cached_property
    def job(self) -> Job | None:
        """The loader as it is, or None where its work was not metered."""
        facts = self.facts
        fetch = facts.fetch_s
        if fetch is None or not facts.loop.steps.count or self._hidden:
            return None
        services = _drawn(facts.work.slot("fetch").histogram, fetch)
        steps = [value / 1e9 for value in facts.loop.steps.values]
        workers = facts.settings.num_workers
        return Job(
            services,
            steps,
            workers,
            facts.settings.prefetch_factor,
            facts.receive_cpu_s,
            facts.settings.in_order,
            facts.cpu_s,
            facts.free_cores,
        )

    @cached_property
    def misfit(self) -> float | None:
        """Measured over simulated rate of the loader as it is."""
        if self.job is None or not self.facts.period_s:
            return None
        simulated = self.job.rate()
        return 1.0 / self.facts.period_s / simulated if simulated else None

    @property
    def _hidden(self) -> bool:
        """Whether workers feed something that feeds the loop, and makes its own batches."""
        return not self.facts.is_loader and self.facts.settings.num_workers > 0

    @property
    def why_unknown(self) -> str:
        """Why nothing can be predicted, or "" where it can."""
        if self._hidden:
            return "what is around the DataLoader is not known well enough"
        if self.misfit is None:
            return "the work on a batch was not metered"
        if not 1.0 / _MISFIT < self.misfit < _MISFIT:
            return f"a simulation of this loader is off by a factor of {self.misfit:.2g}"
        return ""

    def gain(self, *after: Job) -> Gain | None:
        """Return the gain of a change, from its simulations under all assumptions.

        Cores that others used meanwhile may be there or not: both are among them.
        """
        if self.why_unknown or self.job is None or self.misfit is None:
            return None
        ratios = [
            job.changed(cores=cores).rate() / self.job.changed(cores=cores).rate()
            for job in after
            for cores in {self.facts.free_cores, self.facts.cores}
        ]
        spread = math.exp(_ERROR + 0.5 * abs(math.log(self.misfit)))
        middle = math.sqrt(min(ratios) * max(ratios))
        return Gain(middle, min(ratios) / spread, max(ratios) * spread)

    @cached_property
    def best_workers(self) -> int | None:
        """The smallest number of workers within 3 % of the best, or None if unknown."""
        job = self.job
        if job is None:
            return None
        most = max(int(self.facts.cores), 1)
        if self.facts.blocked_share > 0.5:
            most *= 4  # workers that wait need no core
        cores = self.facts.cores  # others come and go
        rates = {
            count: self.with_workers(count).changed(cores=cores).rate()
            for count in range(1, min(most, 64) + 1)
        }
        best = max(rates.values())
        return next(count for count, rate in rates.items() if rate >= 0.97 * best)

    def with_workers(self, count: int) -> Job:
        """Return the job with another number of workers."""
        job = self.job
        assert job is not None
        receive = job.receive_s if job.workers else min(_RECEIVE_S, 0.05 * _mean(job.services))
        prefetch = job.prefetch if job.workers else 2
        return job.changed(workers=count, prefetch=prefetch, receive_s=receive)

    def cheaper(self, name: str, part: float) -> Job:
        """Return the job with some part of a stage's own work saved."""
        job, fetch = self.job, self.facts.fetch_s
        assert job is not None
        assert fetch is not None
        time, cpu = self.facts.share_of_fetch(name)
        return job.cheaper(part * time * fetch, part * cpu * (self.facts.fetch_cpu_s or 0.0))

    def saving(self, name: str, parts: tuple[float, float]) -> Gain | None:
        """Return the gain of saving between two parts of a stage's own work."""
        if self.job is None:
            return None
        return self.gain(*(self.cheaper(name, part) for part in parts))

    def without_slow_samples(self) -> Job | None:
        """Return the job if each slow sample took no longer than the median."""
        job, items, over = self.job, self.facts.work.slot("dataset").histogram, slow_ns(self.facts)
        middle = items.quantile_ns(0.5)
        if job is None or middle is None or over is None:
            return None
        spent = [items.quantile_ns(share) or 0.0 for share in _shares()]
        part = sum(one - middle for one in spent if one > over) / sum(spent)
        whole = self.facts.work.slot("dataset")
        time = whole.wall_ns / max(self.facts.work.slot("fetch").wall_ns, 1)
        saved = part * time * (self.facts.fetch_s or 0.0)
        even = job.cheaper(saved, saved * (1.0 - self.facts.blocked_share))
        return even.changed(services=[_mean(even.services)])


def slow_ns(facts: Facts) -> float | None:
    """Return from when on a sample is slow, in ns, or None without samples.

    Several times the median, and more than a wait for a core may explain.
    """
    middle = facts.work.slot("dataset").histogram.quantile_ns(0.5)
    if not middle:
        return None
    waited = (facts.core_wait_ns or 0) / max(facts.work[t.ITEMS], 1)
    return max(_SLOW * middle, middle + min(_WAITS * waited, _LONGEST_WAIT_NS))


def tail_of(facts: Facts) -> tuple[float, float]:
    """Return the share of samples that are slow, and their share of all samples' time."""
    histogram, over = facts.work.slot("dataset").histogram, slow_ns(facts)
    if over is None:
        return 0.0, 0.0
    slow = slow_time = time = 0.0
    for bucket, count in enumerate(histogram.counts):
        if count:
            spent = sum(bounds_of(bucket)) / 2 * count
            time += spent
            if bounds_of(bucket)[0] > over:
                slow += count
                slow_time += spent
    return slow / histogram.total, slow_time / time


def _drawn(histogram: Histogram, mean_s: float) -> list[float]:
    """Return durations spread as a histogram has them, scaled to a mean."""
    drawn = [(histogram.quantile_ns(share) or 0.0) / 1e9 for share in _shares()]
    mean = _mean(drawn)
    return [one * mean_s / mean for one in drawn] if mean else [mean_s]


def _shares() -> list[float]:
    return [(place + 0.5) / _DRAWS for place in range(_DRAWS)]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
