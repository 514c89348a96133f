"""Cores in virtual time."""

from __future__ import annotations

import heapq
import itertools
from typing import Any

NEVER = float("inf")


class Cores:
    """Cores shared alike: each of n who compute goes on at min(1, cores / n)."""

    def __init__(self, cores: float) -> None:
        self.cores = cores
        self.used_ms = 0.0
        """Core-milliseconds so far."""
        self._served = 0.0  # ms of CPU that anyone present all the time got
        self._ends: list[tuple[float, int, Any]] = []
        self._number = itertools.count()

    @property
    def _speed(self) -> float:
        return min(1.0, self.cores / len(self._ends)) if self._ends else 0.0

    def add(self, cpu_ms: float, who: Any) -> None:
        """Let a job compute for so long."""
        heapq.heappush(self._ends, (self._served + cpu_ms, next(self._number), who))

    def next_ms(self) -> float:
        """Return in how many ms the next one is through."""
        return max(self._ends[0][0] - self._served, 0.0) / self._speed if self._ends else NEVER

    def pass_ms(self, ms: float) -> None:
        """Let time pass."""
        speed = self._speed
        self._served += ms * speed
        self.used_ms += ms * speed * len(self._ends)

    def through(self) -> Any:
        """Return who is through next."""
        return heapq.heappop(self._ends)[-1]
