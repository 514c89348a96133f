"""A pipeline on a virtual clock: recorded service times, finite buffers, order, shared cores.

Bounds say what cannot be exceeded; near balance they promise too much, since workers wait for
one another, for order and for room. This simulates those waits as the engine has them: chunks
start when an earlier one has left, segments take them first come, first served, they are
gathered in order, and batches wait for the consumer. A worker's CPU time is served by cores
that all who compute share alike (processor sharing); its blocked time passes by itself. The
GIL is not simulated.

Only ratios of two simulations are of use, and only where the one of the job as it is comes to
what was measured.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from stoker.analyze.cores import NEVER, Cores


class Work(NamedTuple):
    """What one item takes, in ms."""

    cpu_ms: float
    blocked_ms: float = 0.0


@dataclass(frozen=True)
class Station:
    """Workers that share stages."""

    name: str
    num_workers: int
    works: Sequence[Work]
    """Of one sample (in front of the gather) or batch (behind it), in the order in which they
    came; taken round and round, so that bursts and slow ones stay where they were."""


@dataclass(frozen=True)
class Layout:
    """A pipeline as the simulation sees it."""

    samples: Sequence[Station]
    """That samples go through, in order."""
    consumer: Station
    """Takes batches, one at a time; its workers count for nothing."""
    batch_size: int
    cores: float
    batches: Sequence[Station] = ()
    """That batches go through."""
    chunk_size: int = 1
    """Samples in one hand-over."""
    window: int = 64
    """Chunks in flight, at most."""
    prefetch_batches: int = 2
    """Batches in flight behind the gather, at most."""
    in_order: bool = True


@dataclass(frozen=True)
class Simulated:
    """What came of a simulation."""

    throughput: float
    """Samples/s, warm-up left out."""
    occupied: dict[str, float]
    """Share of each station's workers' time that they had work, a core or not."""
    cores: float
    """Used, on average."""
    waits: float
    """Share of the consumer's time that it waited for a batch."""


def simulate(layout: Layout, batches: int = 200, warm_up: float = 0.2) -> Simulated:
    """Simulate a pipeline until so many batches were taken.

    Args:
        layout: the pipeline.
        batches: that the consumer takes.
        warm_up: share of them that is left out of the figures.

    Raises:
        ValueError: a station without workers or recorded times, or fewer than two batches.
    """
    for station in (*layout.samples, *layout.batches, layout.consumer):
        if station.num_workers < 1 or not station.works:
            raise ValueError(f"{station.name} needs a worker and a recorded time")
    if batches < 2:
        raise ValueError(f"batches={batches}; at least 2 are needed for a rate")
    return _Run(layout).through(batches, max(1, int(batches * warm_up)))


@dataclass
class _Job:
    """A chunk or a batch on its way."""

    number: int
    first: int
    """Position of its first item."""
    count: int
    """Items: samples of a chunk; 1 for a batch."""


@dataclass
class _Queue:
    """A station with those who wait for it."""

    station: Station
    following: _Queue | None = None
    waiting: deque[_Job] = field(default_factory=deque)
    busy: int = 0
    busy_ms: float = 0.0

    def work(self, job: _Job) -> Work:
        """Return what a job takes here."""
        works = self.station.works
        size = len(works)
        cpu = blocked = 0.0
        for position in range(job.first, job.first + job.count):
            one = works[position % size]
            cpu, blocked = cpu + one.cpu_ms, blocked + one.blocked_ms
        return Work(cpu, blocked)


@dataclass
class _Order:
    """Finished jobs of a section, given out by number or as they finish."""

    in_order: bool
    finished: dict[int, _Job] = field(default_factory=dict)
    following: int = 0

    def take(self) -> _Job | None:
        """Return the job whose turn it is, None where it is not there yet."""
        if not self.finished:
            return None
        number = self.following if self.in_order else next(iter(self.finished))
        job = self.finished.pop(number, None)
        if job is not None:
            self.following = number + 1
        return job


class _Run:
    """One simulation under way."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._cores = Cores(layout.cores)
        self._now = 0.0
        self._blocked: list[tuple[float, int, _Job, _Queue]] = []
        self._number = itertools.count()
        self._samples = _chain(layout.samples)
        self._batches = _chain(layout.batches)
        self._consumer = _Queue(layout.consumer)
        self._chunks = _Order(layout.in_order)
        self._ready = _Order(layout.in_order)
        self._started = self._in_flight = 0
        self._gathered = self._made = self._under_way = 0
        self._takes: list[float] = []
        """When the consumer took each batch."""
        self._waited = 0.0
        self._idle_since: float | None = 0.0

    def through(self, batches: int, warm: int) -> Simulated:
        """Run until so many batches were taken; the first `warm` count for nothing."""
        self._pump()
        mark: tuple[float, dict[str, float], float, float] | None = None
        while len(self._takes) < batches:
            self._next_event()
            if mark is None and len(self._takes) >= warm:
                mark = self._marks()
        assert mark is not None
        end = self._marks()
        span = end[0] - mark[0]
        busy = {
            name: (end[1][name] - mark[1][name]) / span / queue.station.num_workers
            for name, queue in self._queues()
        }
        taken = len(self._takes) - warm
        return Simulated(
            taken * self._layout.batch_size / span * 1e3,
            busy,
            (end[2] - mark[2]) / span,
            (end[3] - mark[3]) / span,
        )

    def _queues(self) -> list[tuple[str, _Queue]]:
        every = [*self._samples, *self._batches, self._consumer]
        return [(queue.station.name, queue) for queue in every]

    def _marks(self) -> tuple[float, dict[str, float], float, float]:
        busy = {name: queue.busy_ms for name, queue in self._queues()}
        return self._now, busy, self._cores.used_ms, self._waited

    # -- time ----------------------------------------------------------------------

    def _next_event(self) -> None:
        """Let time pass to the next moment at which someone is through with something."""
        core_ms = self._cores.next_ms()
        blocked_ms = self._blocked[0][0] - self._now if self._blocked else NEVER
        step = min(core_ms, blocked_ms)
        assert step < NEVER, "a simulated pipeline stands still"
        self._cores.pass_ms(step)
        for _, queue in self._queues():
            queue.busy_ms += queue.busy * step
        if self._idle_since is not None:
            self._waited += step
        self._now += step
        if core_ms <= blocked_ms:
            job, queue = self._cores.through()
            blocked = queue.work(job).blocked_ms
            if blocked > 0:
                end = self._now + blocked
                heapq.heappush(self._blocked, (end, next(self._number), job, queue))
                return
        else:
            *_, job, queue = heapq.heappop(self._blocked)
        self._leave(job, queue)

    # -- jobs ----------------------------------------------------------------------

    def _enter(self, job: _Job, queue: _Queue) -> None:
        queue.waiting.append(job)
        self._serve(queue)

    def _serve(self, queue: _Queue) -> None:
        while queue.waiting and queue.busy < queue.station.num_workers:
            job = queue.waiting.popleft()
            queue.busy += 1
            self._cores.add(queue.work(job).cpu_ms, (job, queue))

    def _leave(self, job: _Job, queue: _Queue) -> None:
        queue.busy -= 1
        self._serve(queue)
        if queue is self._consumer:
            self._idle_since = self._now
        elif queue.following is not None:
            self._enter(job, queue.following)
        elif self._batches and queue is self._batches[-1]:
            self._ready.finished[job.number] = job
        else:
            self._chunks.finished[job.number] = job
        self._pump()

    def _pump(self) -> None:
        """Move on what can: chunks into batches, batches to the consumer, new chunks in."""
        moved = True
        while moved:
            moved = self._gather()
            while self._in_flight < self._layout.window:
                size = self._layout.chunk_size
                job = _Job(self._started, self._started * size, size)
                self._started += 1
                self._in_flight += 1
                self._enter(job, self._samples[0])
            moved = self._hand_over() or moved

    def _gather(self) -> bool:
        moved = False
        while self._under_way < self._layout.prefetch_batches:
            chunk = self._chunks.take()
            if chunk is None:
                break
            moved = True
            self._in_flight -= 1
            self._gathered += chunk.count
            while self._gathered >= self._layout.batch_size:
                self._gathered -= self._layout.batch_size
                job = _Job(self._made, self._made, 1)
                self._made += 1
                self._under_way += 1
                if self._batches:
                    self._enter(job, self._batches[0])
                else:
                    self._ready.finished[job.number] = job
        return moved

    def _hand_over(self) -> bool:
        """Let an idle consumer take a batch."""
        if self._idle_since is None:
            return False
        batch = self._ready.take()
        if batch is None:
            return False
        self._under_way -= 1
        self._idle_since = None
        self._takes.append(self._now)
        self._enter(batch, self._consumer)
        return True


def _chain(stations: Sequence[Station]) -> list[_Queue]:
    queues = [_Queue(station) for station in stations]
    for one, following in itertools.pairwise(queues):
        one.following = following
    return queues
