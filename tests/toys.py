"""Small stages with known behaviour, for tests of the engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from stoker.parameters import param
from stoker.rng import Rng
from stoker.sample import Sample
from stoker.session import Step, StepContext, StepOutcome, StepSession
from stoker.stages import Expand, Gather, Map, Mix, Source, StreamSource, Worker


@dataclass(frozen=True)
class Numbers(Source):
    """Gives {"x": number} for 0 .. n-1."""

    name: ClassVar[str] = "toy.numbers"
    n: int = param(10, minimum=0)
    shuffle: bool = False
    sleep_s: float = 0.0
    fail_at: tuple[int, ...] = ()

    def addresses(self, epoch: int, rng: Rng) -> Sequence[int]:
        if self.shuffle:
            order: Sequence[int] = rng.numpy.permutation(self.n)
            return order
        return range(self.n)

    def read(self, address: Any) -> Sample:
        if self.sleep_s:
            time.sleep(self.sleep_s)
        if address in self.fail_at:
            raise OSError(f"cannot read {address}")
        return {"__key__": str(address), "__url__": "memory", "x": address}


@dataclass(frozen=True)
class Stream(StreamSource):
    """Streams numbers, `per_shard` a shard; a broken shard fails after its first sample."""

    name: ClassVar[str] = "toy.stream"
    shards_: int = 3
    per_shard: int = 5
    broken: tuple[int, ...] = ()

    def shards(self, epoch: int, rng: Rng) -> Sequence[int]:
        return range(self.shards_)

    def stream(self, shard: Any) -> Iterator[Sample]:
        for i in range(self.per_shard):
            if shard in self.broken and i == 1:
                raise OSError(f"shard {shard} is cut off")
            number = shard * self.per_shard + i
            yield {"__key__": str(number), "__url__": f"shard-{shard}", "x": number}


@dataclass(frozen=True)
class Add(Map):
    """Adds to x; can sleep, fail, forget its return, or return no sample."""

    name: ClassVar[str] = "toy.add"
    kind: ClassVar[str] = "augment"
    amount: int = 0
    sleep_s: float = 0.0
    fail_at: tuple[int, ...] = ()
    forget_at: tuple[int, ...] = ()
    bare: bool = False

    def apply(self, sample: Sample, rng: Rng) -> Any:
        if self.sleep_s:
            time.sleep(self.sleep_s)
        if sample["x"] in self.fail_at:
            raise ValueError(f"no {sample['x']} here")
        if sample["x"] in self.forget_at:
            return None
        if self.bare:
            return sample["x"]
        return {**sample, "x": sample["x"] + self.amount}


@dataclass(frozen=True)
class KeepEven(Map):
    """Drops odd numbers."""

    name: ClassVar[str] = "toy.keep_even"
    kind: ClassVar[str] = "augment"
    drops: ClassVar[bool] = True

    def apply(self, sample: Sample, rng: Rng) -> Sample | None:
        return sample if sample["x"] % 2 == 0 else None


@dataclass(frozen=True)
class Draw(Map):
    """Notes a draw from each face of the generator."""

    name: ClassVar[str] = "toy.draw"
    kind: ClassVar[str] = "augment"

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        import torch

        drawn = (
            rng.random.random(),
            float(rng.numpy.random()),
            float(torch.rand((), generator=rng.torch)),
        )
        return {**sample, "drawn": (*sample.get("drawn", ()), *drawn)}


@dataclass(frozen=True)
class Copies(Expand):
    """Makes x % times copies of each sample, numbered."""

    name: ClassVar[str] = "toy.copies"
    kind: ClassVar[str] = "augment"
    times: int = 3

    def apply(self, sample: Sample, rng: Rng) -> Iterable[Sample]:
        for i in range(sample["x"] % self.times):
            yield {**sample, "copy": i}


@dataclass(frozen=True)
class WithOther(Mix):
    """Notes the x of another sample."""

    name: ClassVar[str] = "toy.with_other"
    kind: ClassVar[str] = "augment"

    def apply(self, sample: Sample, others: Sequence[Sample], rng: Rng) -> Sample:
        return {**sample, "other": [other["x"] for other in others]}


@dataclass(frozen=True)
class Lists(Gather):
    """Batches of x, as lists."""

    name: ClassVar[str] = "toy.lists"
    batch_size: int = 4
    drop_last: bool = False
    fail_at: tuple[int, ...] = ()
    whole: bool = False

    def group(self, sizes: Sequence[Any], more: bool) -> Sequence[Sequence[int]]:
        count, size = len(sizes), self.batch_size
        groups: list[Sequence[int]] = [range(i, i + size) for i in range(0, count - size + 1, size)]
        if not more and count % size and not self.drop_last:
            groups.append(range(count - count % size, count))
        return groups

    def batches(self, samples: int) -> int | None:
        whole, rest = divmod(samples, self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def assemble(self, samples: Sequence[Sample], alloc: Any) -> Any:
        if any(sample["x"] in self.fail_at for sample in samples):
            raise ValueError("odd one out")
        return list(samples) if self.whole else [sample["x"] for sample in samples]


@dataclass(frozen=True)
class BySum(Gather):
    """Batches whose x add up to at least a budget: depends on the data, and on its order."""

    name: ClassVar[str] = "toy.by_sum"
    budget: int = 10

    def size(self, sample: Sample) -> int:
        return int(sample["x"])

    def group(self, sizes: Sequence[Any], more: bool) -> Sequence[Sequence[int]]:
        groups, start, total = [], 0, 0
        for i, size in enumerate(sizes):
            total += size
            if total >= self.budget:
                groups.append(range(start, i + 1))
                start, total = i + 1, 0
        if not more and start < len(sizes):
            groups.append(range(start, len(sizes)))
        return groups

    def assemble(self, samples: Sequence[Sample], alloc: Any) -> Any:
        return [sample["x"] for sample in samples]


@dataclass(frozen=True)
class Blocks(Map):
    """Blocks on an event that the test holds."""

    name: ClassVar[str] = "toy.blocks"
    kind: ClassVar[str] = "augment"
    event: threading.Event = param()
    entered: threading.Event = param()

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        self.entered.set()
        self.event.wait()
        return sample


@dataclass(frozen=True)
class Opens(Map):
    """Notes each opening and closing in a list; can fail to open."""

    name: ClassVar[str] = "toy.opens"
    kind: ClassVar[str] = "decode"
    log: list[str] = param()
    fails: bool = False

    @contextmanager
    def open(self, worker: Worker) -> Iterator[Any]:
        if self.fails:
            raise RuntimeError("no decoder here")
        self.log.append("open")
        try:
            yield lambda sample, rng: sample
        finally:
            self.log.append("close")


class _Count(StepSession):
    def __init__(self, sleep_s: float) -> None:
        self.seen: list[int] = []
        self._sleep_s = sleep_s

    def __call__(self, batch: Any) -> StepOutcome:
        time.sleep(self._sleep_s)
        self.seen += batch
        return StepOutcome(len(batch), loss=float(sum(batch)), updated=True)

    def results(self) -> dict[str, float]:
        return {"total": float(sum(self.seen))}


@dataclass(frozen=True)
class CountStep(Step):
    """Adds up what it sees."""

    name: ClassVar[str] = "toy.count"
    sleep_s: float = 0.0
    fail_at_step: int | None = None

    @contextmanager
    def open(self, context: StepContext) -> Iterator[StepSession]:
        session = _Count(self.sleep_s)
        if self.fail_at_step is None:
            yield session
            return
        calls = 0
        plain = session.__call__

        class Failing(_Count):
            def __call__(self, batch: Any) -> StepOutcome:
                nonlocal calls
                calls += 1
                if calls == step:
                    raise RuntimeError("the step broke")
                return plain(batch)

        step = self.fail_at_step
        yield Failing(self.sleep_s)
