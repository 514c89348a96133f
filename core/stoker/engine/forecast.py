"""What a cache will take and give, from a few samples, before it is filled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

from stoker.cache import Cache
from stoker.engine.plan import Plan
from stoker.rng import Rng
from stoker.sample import Address, Sample, plain
from stoker.stages import Map, Source, Stage, Worker

SAMPLES = 24
# A slow source must not hold up the start: after this, a few samples have to do.
LIMIT_S = 1.0
_FEWEST = 3


@dataclass(frozen=True)
class Forecast:
    """What a cache is predicted to hold and to save once it is filled."""

    cache: str
    """Its name in the plan."""
    before: tuple[str, ...]
    """Names of the stages that samples in it pass by."""
    tried: int
    """Samples that were made for it."""
    sample_nbytes: float
    """Mean bytes of a sample where the cache stands."""
    samples: int | None
    """In an epoch; None where only reading tells."""
    budget_nbytes: int
    before_ms: float
    """Mean time that a sample takes in the stages before it, one after the other."""
    behind_ms: float
    """The same for those behind it, up to the batch."""

    @property
    def nbytes(self) -> float | None:
        """Bytes that all samples of an epoch would take."""
        return None if self.samples is None else self.samples * self.sample_nbytes

    @property
    def share(self) -> float | None:
        """Share of the samples that it has room for."""
        return None if self.nbytes is None else min(1.0, self.budget_nbytes / max(self.nbytes, 1))

    @property
    def saved(self) -> float:
        """Share of the time of a sample's stages, up to the batch, that a kept one does not
        take; what the cache itself takes is not in it."""
        return self.before_ms / max(self.before_ms + self.behind_ms, 1e-9)

    @property
    def speedup(self) -> float | None:
        """How many times as fast the sample stages are from the second epoch on: Amdahl's law
        with what is kept. The job gains less where something else binds."""
        return None if self.share is None else 1 / max(1 - self.share * self.saved, 1e-3)

    def to_dict(self) -> dict[str, Any]:
        """Return the forecast, JSON-able."""
        return {
            "cache": self.cache,
            "before": list(self.before),
            "tried": self.tried,
            "sample_nbytes": self.sample_nbytes,
            "samples": self.samples,
            "nbytes": self.nbytes,
            "budget_nbytes": self.budget_nbytes,
            "share": self.share,
            "before_ms": self.before_ms,
            "behind_ms": self.behind_ms,
            "speedup": self.speedup,
        }

    def __str__(self) -> str:
        each = f"{_size(self.sample_nbytes)} a sample ({self.tried} tried)"
        saves = (
            f"a kept sample saves {self.before_ms:.2f} of {self.before_ms + self.behind_ms:.2f} ms "
            f"({', '.join(self.before)})"
        )
        if self.share is None or self.nbytes is None or self.speedup is None:
            return f"{self.cache}: {each} of at most {_size(self.budget_nbytes)}; {saves}"
        room = "all fit" if self.share >= 1 else f"{self.share:.0%} of them fit"
        return (
            f"{self.cache}: {self.samples:,} samples take {_size(self.nbytes)}, {each}, of at most "
            f"{_size(self.budget_nbytes)}: {room}; {saves}: up to {self.speedup:.1f} times as "
            "fast from epoch 2 on, unless something else binds"
        )


def forecast(plan: Plan) -> Forecast | None:
    """Predict what the plan's cache will take and give; None where it has none.

    Makes up to 24 samples, spread over the first epoch, in the calling thread, for a second at
    the most. Samples that fail are left out: the run has its policy for them.

    Returns:
        None too where no sample could be made, or where a stage before the cache runs in
        processes: what may end a process must not run in this one.
    """
    at = next((i for i, stage in enumerate(plan.stages) if isinstance(stage, Cache)), None)
    source = plan.source
    if at is None or not isinstance(source, Source):
        return None
    cache = plan.stages[at]
    assert isinstance(cache, Cache)
    if not all(map(_may_run_here, plan.stages[:at])):
        return None
    behind = at + 1
    while behind < len(plan.stages) and _may_run_here(plan.stages[behind]):
        behind += 1
    with ExitStack() as stack:
        trial = _Trial(plan, at, behind, stack)
        order = source.addresses(0, Rng(plan.pipeline.options.seed, plan.names[0]).move(0, 0))
        pairs = [(place, plain(order[place])) for place in _spread(len(order))]
        sizes = list(trial.sizes(pairs))
    if not sizes:
        return None
    times = [spent / len(sizes) / 1e6 for spent in trial.spent_ns]
    return Forecast(
        plan.names[at],
        plan.names[:at],
        len(sizes),
        sum(sizes) / len(sizes),
        plan.samples,
        cache.budget(),
        sum(times[:at]),
        sum(times[at:]),
    )


class _Trial:
    """Stages opened in the calling thread, and what each took of the samples that came through."""

    def __init__(self, plan: Plan, at: int, behind: int, stack: ExitStack) -> None:
        self._at = at
        cache = plan.stages[at]
        assert isinstance(cache, Cache)
        self._nbytes_of = cache.nbytes_of
        seed = plan.pipeline.options.seed
        self._functions: list[tuple[Callable[..., Any], Rng]] = []
        for name, stage in zip(plan.names[:behind], plan.stages[:behind], strict=True):
            if isinstance(stage, (Source, Map)):
                function: Any = stack.enter_context(stage.open(Worker(name)))
                self._functions.append((function, Rng(seed, name)))
        self.spent_ns = [0] * len(self._functions)

    def sizes(self, pairs: Sequence[tuple[int, Address]]) -> Iterator[int]:
        """Yield the bytes that each sample has where the cache stands.

        Args:
            pairs: positions in the first epoch, with the addresses there.
        """
        deadline = perf_counter_ns() + int(LIMIT_S * 1e9)
        for count, (position, address) in enumerate(pairs):
            if count > _FEWEST and perf_counter_ns() > deadline:
                return
            try:
                size, spent = self._one(position, address)
            except Exception:  # the run has its policy for such samples
                continue
            if count == 0 and len(pairs) > 1:
                continue  # it opened files and filled caches
            self.spent_ns = [a + b for a, b in zip(self.spent_ns, spent, strict=True)]
            yield size

    def _one(self, position: int, address: Address) -> tuple[int, list[int]]:
        """Make a sample; return its bytes at the cache, and the time of each stage."""
        (read, _), *maps = self._functions
        began = perf_counter_ns()
        sample: Sample | None = read(address)
        spent = [perf_counter_ns() - began]
        size = self._nbytes_of(sample) if self._at == 1 and sample is not None else 0
        for index, (function, rng) in enumerate(maps, start=1):
            began = perf_counter_ns()
            if sample is not None:
                sample = function(sample, rng.move(0, position))
            spent.append(perf_counter_ns() - began)
            if index == self._at - 1 and sample is not None:
                size = self._nbytes_of(sample)
        return size, spent


def _may_run_here(stage: Stage) -> bool:
    return isinstance(stage, (Source, Map)) and stage.executor != "process"


def _spread(count: int) -> list[int]:
    """Return positions spread over an epoch; one more than are counted, for the warm-up."""
    wanted = min(SAMPLES + 1, count)
    return sorted({round(i * (count - 1) / max(wanted - 1, 1)) for i in range(wanted)})


def _size(count: float) -> str:
    """Return bytes in a unit that suits: 147 kB, 1.2 GB."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            figure = count / factor
            return f"{figure:.1f} {unit}" if figure < 10 else f"{figure:,.0f} {unit}"
    return f"{count:.0f} bytes"
