"""Stages with a known demand, for planted bottlenecks that run for real."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import ClassVar

from stoker.parameters import param
from stoker.rng import Rng
from stoker.sample import Sample
from stoker.stages import Map


@dataclass(frozen=True)
class SleepingDecode(Map):
    """Sleeps, as what waits for something outside does."""

    name: ClassVar[str] = "planted.sleeping_decode"
    kind: ClassVar[str] = "decode"
    ms: float = param(20.0, "how long", unit="ms", minimum=0)

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        """Return the sample after a while."""
        time.sleep(self.ms / 1e3)
        return sample


@dataclass(frozen=True)
class SleepingAugment(SleepingDecode):
    """The same under another name."""

    name: ClassVar[str] = "planted.sleeping_augment"
    kind: ClassVar[str] = "augment"


@dataclass(frozen=True)
class HashingDecode(Map):
    """Computes in C with the GIL let go, as decoders do."""

    name: ClassVar[str] = "planted.hashing_decode"
    kind: ClassVar[str] = "decode"
    kilobytes: int = param(4000, "how much to hash", unit="kB", minimum=1)

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        """Return the sample after some hashing."""
        hashlib.sha256(bytes(self.kilobytes * 1000)).digest()
        return sample


@dataclass(frozen=True)
class PythonAugment(Map):
    """Computes in Python, holding the GIL."""

    name: ClassVar[str] = "planted.python_augment"
    kind: ClassVar[str] = "augment"
    turns: int = param(100_000, "turns of a loop", minimum=1)

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        """Return the sample after some turns."""
        total = 0
        for turn in range(self.turns):
            total += turn
        return sample
