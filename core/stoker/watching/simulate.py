"""A simulation of a DataLoader: workers, batches in flight, order, and a step that takes time.

What a change gives is simulated-after over simulated-before, both with the measured
durations; cores are shared out by a bound, since processes do not queue for them in turn.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

BATCHES = 600
_WARM = 60
# How sharply two limits that are near one another bend.
_BEND = 8.0


@dataclass(frozen=True)
class Job:
    """What a DataLoader is to do. Times in seconds, one batch each."""

    services: Sequence[float]
    """One worker's time for a batch; drawn at random."""
    steps: Sequence[float]
    workers: int
    prefetch: int
    receive_s: float = 0.0
    """The consumer's own time to take a batch in."""
    in_order: bool = True
    cpu_s: float = 0.0
    """CPU time of everything, for a batch."""
    cores: float = 1.0

    def rate(self) -> float:
        """Return batches/s."""
        period = _period(self)
        if not period:
            return 0.0
        return soft_minimum(1.0 / period, self.cores / self.cpu_s if self.cpu_s else None)

    def changed(self, **changes: object) -> Job:
        """Return the job with other settings."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def cheaper(self, saved_s: float, saved_cpu_s: float) -> Job:
        """Return the job with less work on each batch."""
        mean = sum(self.services) / len(self.services)
        kept = max(1.0 - saved_s / mean, 0.02) if mean else 1.0
        cpu_s = max(self.cpu_s - saved_cpu_s, 0.02 * self.cpu_s)
        return replace(self, services=[one * kept for one in self.services], cpu_s=cpu_s)


def soft_minimum(*limits: float | None) -> float:
    """Return about the lowest limit, less where others are near it; None is no limit."""
    known = [limit for limit in limits if limit is not None]
    lowest = min(known)
    if lowest <= 0.0:
        return 0.0
    return float(lowest * sum((lowest / one) ** _BEND for one in known) ** (-1.0 / _BEND))


def _period(job: Job) -> float:
    """Return seconds a batch, once the pipe is full."""
    draw = random.Random(17)
    services = [draw.choice(job.services) for _ in range(BATCHES)]
    steps = [draw.choice(job.steps) for _ in range(BATCHES)]
    if not job.workers:
        return (sum(services) + sum(steps)) / BATCHES
    left = _left_in_order(job, services, steps) if job.in_order else _left(job, services, steps)
    return (left[-1] - left[_WARM]) / (BATCHES - 1 - _WARM)


def _left_in_order(job: Job, services: Sequence[float], steps: Sequence[float]) -> list[float]:
    """Return when each step ended: batch i is made by worker i modulo n."""
    ahead = job.workers * job.prefetch
    free = [0.0] * job.workers
    asked: list[float] = [0.0] * ahead
    left: list[float] = []
    now = 0.0
    for index, (service, step) in enumerate(zip(services, steps, strict=True)):
        worker = index % job.workers
        free[worker] = max(free[worker], asked[index]) + service
        now = max(now, free[worker]) + job.receive_s
        asked.append(now)  # a batch is asked for as one is taken out
        now += step
        left.append(now)
    return left


def _left(job: Job, services: Sequence[float], steps: Sequence[float]) -> list[float]:
    """Return when each step ended, if batches are taken as they become ready."""
    free = [0.0] * job.workers
    ready: list[float] = []
    begun = 0

    def ask(at: float) -> None:
        nonlocal begun
        worker = min(range(job.workers), key=free.__getitem__)
        free[worker] = max(free[worker], at) + services[begun]
        heapq.heappush(ready, free[worker])
        begun += 1

    for _ in range(min(job.workers * job.prefetch, len(services))):
        ask(0.0)
    left: list[float] = []
    now = 0.0
    for step in steps:
        now = max(now, heapq.heappop(ready)) + job.receive_s
        if begun < len(services):
            ask(now)
        now += step
        left.append(now)
    return left
