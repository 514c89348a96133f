"""Stages for the fault suite, in a module that worker processes can import."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy

from stoker.parameters import param
from stoker.rng import Rng
from stoker.sample import Sample
from stoker.stages import Gather, Map, Source, StreamSource


@dataclass(frozen=True)
class Numbers(Source):
    """0 .. n-1, in another order each epoch if shuffled; can block until it is let go."""

    name: ClassVar[str] = "faults.numbers"
    n: int = param(100, minimum=0)
    shuffle: bool = False
    blocks_at: int | None = None
    gate: Any = None

    def addresses(self, epoch: int, rng: Rng) -> Sequence[int]:
        order: Sequence[int] = rng.numpy.permutation(self.n) if self.shuffle else range(self.n)
        return order

    def read(self, address: Any) -> Sample:
        if address == self.blocks_at:
            self.gate.wait()
        return {"__key__": str(address), "x": int(address)}


@dataclass(frozen=True)
class Stream(StreamSource):
    """Numbers, six a shard."""

    name: ClassVar[str] = "faults.stream"
    n_shards: int = 5

    def shards(self, epoch: int, rng: Rng) -> Sequence[int]:
        return range(self.n_shards)

    def stream(self, shard: Any) -> Iterator[Sample]:
        for number in range(6 * shard, 6 * shard + 6):
            yield {"__key__": str(number), "x": number}


@dataclass(frozen=True)
class Crop(Map):
    """Makes bytes that depend on the sample and its draws."""

    name: ClassVar[str] = "faults.crop"
    kind: ClassVar[str] = "augment"
    sleep_s: float = 0.0
    fail_at: int = -1
    side: int = 8

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        if self.sleep_s:
            time.sleep(self.sleep_s)
        if sample["x"] == self.fail_at:
            raise ValueError(f"no {sample['x']} here")
        pixels = rng.numpy.integers(0, 256, (self.side, self.side, 3), numpy.uint8)
        return {**sample, "image": pixels, "drawn": rng.random.random()}


@dataclass(frozen=True)
class Hurts(Map):
    """Does something to its own worker process at one sample, once where a file says so."""

    name: ClassVar[str] = "faults.hurts"
    kind: ClassVar[str] = "augment"
    at: int = 0
    number: int = int(signal.SIGKILL)
    once: str = ""
    """A file that is made when it happened; "" lets it happen each time."""

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        if sample["x"] == self.at and not (self.once and os.path.exists(self.once)):
            if self.once:
                with open(self.once, "x"):
                    pass
            os.kill(os.getpid(), self.number)
            time.sleep(0.01)  # a signal that stops the process takes effect by now
        return sample


@dataclass(frozen=True)
class Batches(Gather):
    """Lists of samples, by count."""

    name: ClassVar[str] = "faults.batches"
    batch_size: int = 4
    drop_last: bool = False

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
        return list(samples)


def threads_of_ours() -> list[str]:
    """Return the names of Stoker's threads in this process."""
    return [t.name for t in threading.enumerate() if t.name.startswith("stoker")]
