"""Stages that do to their process what tests want, where children can import them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from stoker.parameters import param
from stoker.rng import Rng
from stoker.sample import Sample
from stoker.stages import BatchMap, Map, Worker


@dataclass(frozen=True)
class Calls(Map):
    """Calls a function."""

    name: ClassVar[str] = "toy.calls"
    kind: ClassVar[str] = "augment"
    function: Any = param()
    extra: Any = None

    def apply(self, sample: Sample, rng: Rng) -> Any:
        return self.function(sample)


@dataclass(frozen=True)
class Kills(Map):
    """Sends its own process a signal at some samples; at most `times` times each."""

    name: ClassVar[str] = "toy.kills"
    kind: ClassVar[str] = "augment"
    log: Path = param()
    at: tuple[int, ...] = ()
    times: int = 1_000
    number: int = signal.SIGKILL

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        note(self.log, str(sample["x"]))
        if sample["x"] in self.at and noted(self.log).count(str(sample["x"])) <= self.times:
            os.kill(os.getpid(), self.number)
            time.sleep(30)
        return sample


@dataclass(frozen=True)
class Notes(Map):
    """Notes its process, then sleeps at some samples."""

    name: ClassVar[str] = "toy.notes"
    kind: ClassVar[str] = "augment"
    log: Path = param()
    sleep_at: tuple[int, ...] = ()
    sleep_s: float = 60.0

    @contextmanager
    def open(self, worker: Worker) -> Iterator[Any]:
        note(self.log, f"open {os.getpid()} {worker.executor} {worker.count}")
        yield self.apply
        note(self.log, f"close {os.getpid()}")

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        if sample["x"] in self.sleep_at:
            note(self.log, f"sleep {os.getpid()}")
            dozes(self.sleep_s)
        return sample


@dataclass(frozen=True)
class Arrays(Map):
    """Adds arrays and tensors of several kinds, drawn for the sample."""

    name: ClassVar[str] = "toy.arrays"
    kind: ClassVar[str] = "decode"
    nbytes: int = 40_000
    tensors: bool = False

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        wide = rng.numpy.integers(0, 256, (self.nbytes // 100, 20, 5), dtype="uint8")
        made = {**sample, "wide": wide, "flipped": wide[::-1, :, ::2], "turned": wide.T}
        if self.tensors:
            import torch

            dense = torch.rand((4, 3, 40, 40), generator=rng.torch)
            made["last"] = dense.to(memory_format=torch.channels_last)
            made["half"] = dense.bfloat16()
            made["empty"] = torch.empty((0, 3))
            made["single"] = dense.sum()
            made["none_of_many"] = torch.empty((3, 0, 2)).permute(2, 0, 1)
        return made


@dataclass(frozen=True)
class Doubles(BatchMap):
    """Doubles the numbers of a batch; can kill its process."""

    name: ClassVar[str] = "toy.doubles"
    kind: ClassVar[str] = "batch"
    log: Path | None = None
    kill_at: int | None = None

    def apply(self, batch: Any, rng: Rng) -> Any:
        if self.kill_at in batch and self.log is not None:
            note(self.log, "kill")
            os.kill(os.getpid(), signal.SIGKILL)
        return [2 * number for number in batch]


@dataclass(frozen=True)
class Unopenable(Map):
    """Cannot be opened."""

    name: ClassVar[str] = "toy.unopenable"
    kind: ClassVar[str] = "decode"
    exits: bool = False

    @contextmanager
    def open(self, worker: Worker) -> Iterator[Any]:
        if self.exits:
            os._exit(3)
        raise RuntimeError("no decoder here")
        yield


class TwoArguments(Exception):
    """Survives being pickled, and does not come out again."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} and {two}")


class KeywordOnly(Exception):
    """The same, with a keyword."""

    def __init__(self, *, code: int) -> None:
        super().__init__(f"code {code}")


class Unpicklable(Exception):
    """Holds what cannot be pickled."""

    def __init__(self) -> None:
        super().__init__("it holds a lambda")
        self.function = lambda: None


def raises_two_arguments(sample: Sample) -> Sample:
    raise TwoArguments("first", "second")


def raises_keyword_only(sample: Sample) -> Sample:
    raise KeywordOnly(code=7)


def raises_unpicklable(sample: Sample) -> Sample:
    raise Unpicklable


def raises_value_error(sample: Sample) -> Sample:
    raise ValueError("plain")


def exits(sample: Sample) -> Sample:
    raise SystemExit(4)


def adds_a_lambda(sample: Sample) -> Sample:
    return {**sample, "function": lambda: None} if sample["x"] == 2 else sample


def untouched(sample: Sample) -> Sample:
    return sample


def dozes(seconds: float) -> None:
    time.sleep(seconds)


def note(log: Path, line: str) -> None:
    """Append a line in one piece."""
    with log.open("a") as file:
        file.write(line + "\n")


def noted(log: Path) -> Sequence[str]:
    """Return the lines so far."""
    return log.read_text().splitlines() if log.exists() else []
