"""Stages for the fault suite, in a module that worker processes can import."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy
import psutil

from stoker.rng import Rng
from stoker.sample import Sample
from stoker.stages import Map
from toys import Numbers


@dataclass(frozen=True)
class Gated(Numbers):
    """Numbers, of which one cannot be read before a gate opens."""

    name: ClassVar[str] = "faults.gated"
    closed_at: int = 0
    gate: Any = None

    def read(self, address: Any) -> Sample:
        if address == self.closed_at:
            self.gate.wait()
        return super().read(address)


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


def threads_of_ours() -> list[str]:
    """Return the names of Stoker's threads in this process."""
    return [t.name for t in threading.enumerate() if t.name.startswith("stoker")]


def children() -> set[psutil.Process]:
    """Return this process's descendants; other tests may have left some."""
    return set(psutil.Process().children(recursive=True))


def environment() -> dict[str, str]:
    """Return the environment in which a script finds what this process finds."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
