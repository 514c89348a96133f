"""Randomness that depends on the sample and on nothing about workers.

A draw is a function of (seed, epoch, position, stage name and occurrence).
`Rng` is moved from sample to sample and seeds a generator only when one of its
faces is first used there, since making or seeding one costs microseconds.
"""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy
    import torch

_MASK = (1 << 64) - 1


def stable_key(*parts: object) -> int:
    """Return a 64-bit key of the parts, equal on every machine and in every process."""
    # Paths may hold bytes that are no text, which Python keeps as lone surrogates.
    text = "\x1f".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def _mix(value: int) -> int:
    """Return `value` scrambled over 64 bits (the finaliser of splitmix64, Steele 2014)."""
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _MASK
    return value ^ (value >> 31)


class Rng:
    """A lazy generator with three faces: `numpy`, `random` and `torch`.

    One object serves one worker and one stage; the engine moves it before each
    sample. A stage must not keep it, or a face of it, beyond the call.
    """

    __slots__ = (
        *("_epoch", "_position", "_part", "_key", "_run_seed", "_others"),
        *("_numpy", "_random", "_ready", "_torch"),
    )

    def __init__(self, seed: int, stage: str) -> None:
        self._key, self._run_seed = stable_key(seed, stage), seed
        self._others: dict[str, Rng] = {}
        self._epoch = self._position = self._part = 0
        self._ready = 0
        self._numpy: numpy.random.Generator | None = None
        self._random: random.Random | None = None
        self._torch: torch.Generator | None = None

    def move(self, epoch: int, position: int, part: int = 0) -> Rng:
        """Stand at a sample: its epoch, its position in it, its part of an expansion."""
        self._epoch, self._position, self._part, self._ready = epoch, position, part, 0
        return self

    def of(self, stage: str) -> Rng:
        """Return the generator that another stage has at this sample: it draws the same.

        Args:
            stage: the other's unique name in the pipeline.
        """
        other = self._others.get(stage)
        if other is None:
            other = self._others[stage] = Rng(self._run_seed, stage)
        return other.move(self._epoch, self._position, self._part)

    @property
    def seed(self) -> int:
        """The 64-bit seed at this sample, for libraries with generators of their own."""
        # int: a position that a stage drew with NumPy would overflow.
        state = _mix(self._key ^ (int(self._epoch) * 0x9E3779B97F4A7C15 & _MASK))
        state = _mix(state ^ (int(self._position) * 0xD1B54A32D192ED03 & _MASK))
        return _mix(state ^ (int(self._part) * 0x8CB92BA72F3D8DD7 & _MASK))

    @property
    def random(self) -> random.Random:
        """A `random.Random` seeded for this sample."""
        if self._random is None:
            self._random = random.Random()
        if not self._ready & 1:
            self._random.seed(self.seed)
            self._ready |= 1
        return self._random

    @property
    def numpy(self) -> numpy.random.Generator:
        """A NumPy `Generator` (Philox) seeded for this sample."""
        import numpy

        if self._numpy is None:
            self._numpy = numpy.random.Generator(numpy.random.Philox(0))
        if not self._ready & 2:
            seed = self.seed
            words = numpy.zeros(4, numpy.uint64)
            self._numpy.bit_generator.state = {
                "bit_generator": "Philox",
                "state": {
                    "counter": words,
                    "key": numpy.array([seed, _mix(seed ^ 0xA5)], numpy.uint64),
                },
                "buffer": words,
                "buffer_pos": 4,  # empty: the next draw makes a new block
                "has_uint32": 0,
                "uinteger": 0,
            }
            self._ready |= 2
        return self._numpy

    @property
    def torch(self) -> torch.Generator:
        """A CPU `torch.Generator` seeded for this sample (torch takes 32 bits of a seed)."""
        import torch

        if self._torch is None:
            self._torch = torch.Generator()
        if not self._ready & 4:
            self._torch.manual_seed(self.seed & (_MASK >> 1))
            self._ready |= 4
        return self._torch
