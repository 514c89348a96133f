"""What simulated work asks of the machine: cores, the GIL, locks, or just time."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.planted.threads import Demand, Process


@dataclass(frozen=True)
class Op:
    """One operation.

    Args:
        kind: "c" (a core, without the GIL), "py" (a core and the GIL) or "block" (neither).
        ms: how long it takes on a machine of its own, on average.
        jitter: standard deviation over mean; times are lognormal.
        cause: what a thread that blocks is found doing.
        lock: name of a mutex that is held meanwhile, "" for none.
    """

    kind: str
    ms: float
    jitter: float = 0.0
    cause: str = ""
    lock: str = ""

    def draw_ns(self, draw: random.Random) -> int:
        """Return how long it takes this time."""
        if not self.jitter:
            return round(self.ms * 1e6)
        variance = math.log1p(self.jitter**2)
        return round(self.ms * 1e6 * draw.lognormvariate(-variance / 2, math.sqrt(variance)))


def c(ms: float, jitter: float = 0.0) -> Op:
    """Return C code that lets the GIL go: it needs a core."""
    return Op("c", ms, jitter)


def py(ms: float, jitter: float = 0.0) -> Op:
    """Return Python code: it needs a core and the GIL."""
    return Op("py", ms, jitter)


def sleep(ms: float, jitter: float = 0.0) -> Op:
    """Return a sleep."""
    return Op("block", ms, jitter, "sleep")


def disk(ms: float, jitter: float = 0.0) -> Op:
    """Return a read that waits for the disk, which serves any number at once."""
    return Op("block", ms, jitter, "disk")


def network(ms: float, jitter: float = 0.0) -> Op:
    """Return a wait for a remote machine."""
    return Op("block", ms, jitter, "network")


def device(ms: float, jitter: float = 0.0) -> Op:
    """Return a wait for the accelerator."""
    return Op("block", ms, jitter, "other")


def lock(name: str, ms: float, jitter: float = 0.0) -> Op:
    """Return C code that runs under a mutex."""
    return Op("c", ms, jitter, lock=name)


def perform(ops: Sequence[Op], process: Process, draw: random.Random) -> Iterator[Demand]:
    """Yield what operations ask of the machine, one after another."""
    for op in ops:
        work = Demand(op.kind, op.draw_ns(draw), op.cause)
        if op.lock:
            mutex = process.mutex(op.lock)
            yield Demand("acquire", mutex=mutex)
            yield work
            yield Demand("release", mutex=mutex)
        else:
            yield work
