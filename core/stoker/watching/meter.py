"""Timing of single calls, no more of them than one can afford.

A metered call costs a few microseconds, so only some batches are metered: as many as keep
the cost below a set share of the time they take. All hooks ask the meter of their own
thread whether this batch is one of them.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from stoker.measure.histogram import bucket_of
from stoker.watching import table as t
from stoker.watching.table import Table

COST: Final = 0.005
"""Of the CPU time, spent on watching unless something else is asked for."""
WAITING: Final = 0.2
"""What time without computing counts for, beside CPU time."""
# Of that cost, for metering calls; the rest is for the sampler and for what cannot be spaced out.
_METERING: Final = 0.4
# In place, with caches full of data, a call costs more than in the loop it is measured in.
_COLD: Final = 1.5
NEXT, STEP, FETCH, DATASET, COLLATE, DECODE = range(6)
FIXED: Final = ("next", "step", "fetch", "dataset", "collate", "decode")
# Items that are metered with their transforms before hooks that cost too much are dropped.
_ENOUGH: Final = 64
_MOST_SKIPPED: Final = 1000
MARKS: Final = 64
# What a hook costs in a batch that is not metered, and what all of them may cost there.
_PASSING_NS: Final = 700
_PASSING_SHARE: Final = 0.004


class _Local(threading.local):
    meter: Meter | None = None
    """Of this thread, while it loads for somebody who watches."""


LOCAL: Final = _Local()


class Meter:
    """Meters calls of one thread into a table."""

    __slots__ = (
        "__weakref__",
        "_batch_ns",
        "_begun",
        "_begun_cpu",
        "_child_cpu",
        "_child_wall",
        "_cost",
        "_draw",
        "_hooks",
        "_kept",
        "_names",
        "_skip",
        "cells",
        "cost",
        "current",
        "last_ns",
        "marked",
        "marks",
        "on",
        "slots",
        "table",
        "too_many_hooks",
    )  # fmt: skip

    def __init__(self, table: Table, cost: float = COST) -> None:
        self.table, self.cells, self.cost = table, table.cells, cost
        for slot, name in enumerate(FIXED):
            table.name_slot(slot, name)
        self._names: dict[str, int] = {}
        self.on = False
        self.current = STEP
        """The slot that the thread is in now."""
        self.marks: list[tuple[int, int]] = [(0, STEP)] * MARKS
        """When which slot was entered, the latest of them in a ring."""
        self.marked = 0
        self.slots: dict[int, int] = {}
        """The slots of metered transforms, by id."""
        self.too_many_hooks = False
        """Transforms are called so often and do so little that asking costs too much."""
        self.last_ns = 0
        self._child_wall = self._child_cpu = 0
        self._hooks = self._skip = self._begun = self._begun_cpu = 0
        self._batch_ns = 0.0
        self._kept = 0
        self._cost = hook_cost_ns()
        self._draw = random.Random(id(self))  # nobody else's random numbers are used up

    def add_slot(self, name: str) -> int | None:
        """Return the slot of a name, a new one if need be, or None where the table is full."""
        known = self._names.get(name)
        if known is not None:
            return known
        slot = self.cells[t.SLOTS]
        if slot >= t.SLOT_COUNT:
            return None
        self.table.name_slot(slot, name)
        self._names[name] = slot
        return slot

    def call(
        self, slot: int, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a function and meter it. Time of calls inside it is taken off its own."""
        outer, wall_before, cpu_before = self.current, self._child_wall, self._child_cpu
        self._child_wall = self._child_cpu = 0
        failed = 1
        cpu = time.thread_time_ns()
        begun = time.perf_counter_ns()
        self.enter(slot, begun)
        try:
            result = function(*args, **kwargs)
            failed = 0
            return result
        finally:
            ended = time.perf_counter_ns()
            self.enter(outer, ended)
            wall, cpu = ended - begun, time.thread_time_ns() - cpu
            self.record(slot, wall, cpu, failed)
            self.last_ns = wall
            self._child_wall = wall_before + wall + self._cost
            self._child_cpu = cpu_before + cpu + self._cost
            self._hooks += 1

    def enter(self, slot: int, now: int) -> None:
        """Note that the thread is in a slot from now on."""
        self.current = slot
        self.marks[self.marked % MARKS] = now, slot
        self.marked += 1

    def slot_at(self, moment: int) -> int | None:
        """Return the slot that the thread was in, or None where that is too long ago."""
        marks, marked = self.marks, self.marked
        for back in range(1, MARKS):
            since, slot = marks[(marked - back) % MARKS]
            if since <= moment:
                return slot
        return None

    def record(self, slot: int, wall: int, cpu: int, failed: int = 0) -> None:
        """Count one call of a slot, less what was metered inside it."""
        cells, at = self.cells, t.HEADER + slot * t.SLOT
        cells[at] += 1
        cells[at + t.WALL] += wall
        cells[at + t.OWN_WALL] += max(wall - self._child_wall, 0)
        cells[at + t.CPU] += cpu
        cells[at + t.OWN_CPU] += max(cpu - self._child_cpu, 0)
        if wall > cells[at + t.LONGEST]:
            cells[at + t.LONGEST] = wall
        if failed:
            cells[at + t.FAILED] += 1
        cells[at + t.BUCKETS_AT + min(bucket_of(wall), t.BUCKETS - 1)] += 1

    def start_batch(self) -> bool:
        """Say whether this batch is metered."""
        self._begun = time.perf_counter_ns()
        self.on = self._skip <= 0
        self._skip -= 1
        if self.on:
            self._hooks, self._begun_cpu = 0, time.thread_time_ns()
        return self.on

    def end_batch(self, items: int) -> None:
        """Count a batch and see how many of the next ones can be metered."""
        cells = self.cells
        spent = time.perf_counter_ns() - self._begun
        cells[t.BATCHES] += 1
        cells[t.ITEMS] += items
        cells[t.BUSY_NS] += spent
        if not self.on:
            return
        self.on = False
        cells[t.METERED_BATCHES] += 1
        cells[t.MAIN_CPU_NS] = cpu = time.thread_time_ns()
        cells[t.PROCESS_CPU_NS] = time.process_time_ns()
        cells[t.METERED_ITEMS] += items
        if self.slots:
            cells[t.HOOKED_ITEMS] += items
        used = cpu - self._begun_cpu + WAITING * spent
        cost = (self._hooks + 2) * self._cost * _COLD
        self._batch_ns += (used - self._batch_ns) * (0.2 if self._batch_ns else 1.0)
        skip = max(cost / (_METERING * self.cost * max(self._batch_ns - cost, 1.0)) - 1.0, 0.0)
        # Jittered, so that it does not beat with a period in the data.
        self._skip = min(round(skip * self._draw.uniform(0.5, 1.5)), _MOST_SKIPPED)
        if self.slots and cells[t.HOOKED_ITEMS] >= _ENOUGH:
            passing = max(self._hooks - items, 0) * _PASSING_NS
            self.too_many_hooks = passing > _PASSING_SHARE * self._batch_ns

    def note_item(self, index: object) -> None:
        """Remember the item just metered if it is one of the slowest."""
        if self.last_ns <= self._kept:
            return
        cells = self.cells
        durations = range(t.SLOW + 1, t.SLOW + 2 * t.SLOW_COUNT, 2)
        fastest = min(durations, key=cells.__getitem__)
        cells[fastest - 1] = index if isinstance(index, int) and 0 <= index < 1 << 62 else -1
        cells[fastest] = self.last_ns
        self._kept = min(cells[at] for at in durations)


_cost: int | None = None


def hook_cost_ns() -> int:
    """Return what a metered call costs on this machine, measured once."""
    global _cost
    if _cost is None:
        _cost = 0
        meter = Meter(Table.private())
        tries = []
        for _ in range(3):
            begun = time.perf_counter_ns()
            for _ in range(32):
                meter.call(DATASET, _nothing, (), {})
            tries.append((time.perf_counter_ns() - begun) // 32)
        _cost = min(tries)
    return _cost


def _nothing() -> None:
    """Do nothing."""
