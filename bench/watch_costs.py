"""What each kind of metering by `stoker.watch` costs: loops that do what it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import repeat
from typing import Any

from bench.metering_costs import Loop
from stoker.watching import watch
from stoker.watching.hooks import Hooks
from stoker.watching.members import find
from stoker.watching.meter import DATASET, LOCAL, Meter
from stoker.watching.table import Table

CALL = "call, metered"
PASS = "call, not metered"
BATCH = "batch in the fetcher"
NEXT = "batch in the loop"
EPOCH = "epoch in the loop"


class _Held:
    def __init__(self) -> None:
        self.transforms = [_Nothing()]


class _Nothing:
    def __call__(self) -> None:
        """Do nothing."""


class _Endless:
    def __iter__(self) -> Iterator[None]:
        return repeat(None)


def cost_loops() -> Mapping[str, Loop]:
    """Return a loop for each kind of metering."""
    meter = Meter(Table.private())
    held = _Held()
    hooks = Hooks(meter, find(held), private=True)
    batches = iter(watch(_Endless()))
    next(batches)
    return {
        CALL: partial(_call, meter),
        PASS: partial(_pass, meter, hooks, held.transforms[0]),
        BATCH: partial(_batch, meter),
        NEXT: partial(_next, batches.__next__),
        EPOCH: partial(_epoch, watch([])),
    }


def _call(meter: Meter, turns: int) -> None:
    nothing = _Nothing.__call__
    for _ in range(turns):
        meter.call(DATASET, nothing, (None,), {})


def _pass(meter: Meter, hooks: Hooks, nothing: Callable[[], None], turns: int) -> None:
    assert hooks.installed
    before, LOCAL.meter = LOCAL.meter, meter
    for _ in range(turns):
        nothing()
    LOCAL.meter = before


def _batch(meter: Meter, turns: int) -> None:
    for _ in range(turns):
        meter.start_batch()
        meter.on = False
        meter.end_batch(1)


def _next(following: Callable[[], Any], turns: int) -> None:
    for _ in range(turns):
        following()


def _epoch(watched: Any, turns: int) -> None:
    for _ in range(turns):
        for _ in watched:
            pass
