"""Figures of many workers, summed by name."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from stoker.measure.histogram import Histogram
from stoker.watching import table as t
from stoker.watching.table import Table

_SUMS: Final = (
    t.BATCHES, t.ITEMS, t.METERED_BATCHES, t.METERED_ITEMS, t.HOOKED_ITEMS, t.BUSY_NS,
    t.DECODED, t.DECODED_PIXELS, t.DECODED_JPEG, t.LISTS, t.FEEDER_CPU_NS, t.SAMPLER_CPU_NS,
    t.SETUP_CPU_NS,
)  # fmt: skip

_LOOKS: Final = ("python", "held", "released")


@dataclass
class Slot:
    """What was metered of one stage, summed. Times in ns."""

    calls: int = 0
    wall_ns: int = 0
    own_wall_ns: int = 0
    """Without the stages metered inside it."""
    cpu_ns: int = 0
    own_cpu_ns: int = 0
    longest_ns: int = 0
    python: int = 0
    """Times that the sampler found it executing Python."""
    held: int = 0
    """... in C code that held the GIL."""
    released: int = 0
    """... in C code that had let the GIL go."""
    histogram: Histogram = field(default_factory=Histogram)

    def add(self, cells: list[int]) -> None:
        """Add the cells of a worker's slot."""
        self.calls += cells[t.CALLS]
        self.wall_ns += cells[t.WALL]
        self.own_wall_ns += cells[t.OWN_WALL]
        self.cpu_ns += cells[t.CPU]
        self.own_cpu_ns += cells[t.OWN_CPU]
        self.longest_ns = max(self.longest_ns, cells[t.LONGEST])
        self.python += cells[t.PYTHON]
        self.held += cells[t.HELD]
        self.released += cells[t.RELEASED]
        counts = self.histogram.counts
        counts[: t.BUCKETS] = map(operator.add, counts, cells[t.BUCKETS_AT :])

    def merge(self, other: Slot) -> None:
        """Add another slot."""
        for name in ("calls", "wall_ns", "own_wall_ns", "cpu_ns", "own_cpu_ns", *_LOOKS):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.longest_ns = max(self.longest_ns, other.longest_ns)
        self.histogram.merge(other.histogram)

    @property
    def looks(self) -> int:
        """Times that the sampler found the thread here."""
        return self.python + self.held + self.released


@dataclass
class Spot:
    """A place where the sampler found threads."""

    stage: str
    collating: bool
    python: int = 0
    held: int = 0
    released: int = 0

    @property
    def looks(self) -> int:
        """Times that a thread was found here."""
        return self.python + self.held + self.released


@dataclass(frozen=True)
class Worker:
    """One worker process, for as long as it was watched."""

    pid: int
    batches: int
    cpu_s: float
    runqueue_s: float | None
    """Ready and waiting for a core; None where the system does not tell."""


# Of workers that come and go with each epoch, only the latest are shown one by one.
_WORKERS: Final = 32


@dataclass
class Figures:
    """All that was metered in some tables."""

    sums: dict[int, int] = field(default_factory=lambda: dict.fromkeys(_SUMS, 0))
    slots: dict[str, Slot] = field(default_factory=dict)
    spots: dict[str, Spot] = field(default_factory=dict)
    slowest: list[tuple[int, int]] = field(default_factory=list)
    """Index and ns of the slowest items, slowest first; the index is -1 if it is no number."""
    process_cpu_ns: int = 0
    main_cpu_ns: int = 0
    total_cpu_ns: int = 0
    """CPU time of the processes, from their start."""
    runqueue_ns: int | None = 0
    torch_threads: int = 0
    cv2_threads: int = 0
    tables: int = 0
    workers: list[Worker] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """Why workers could not be metered."""

    def __getitem__(self, cell: int) -> int:
        return self.sums[cell]

    def slot(self, name: str) -> Slot:
        """Return what was metered under a name."""
        return self.slots.get(name) or Slot()

    def add(self, table: Table, since: Mapping[int, int] | None = None) -> None:
        """Add a table.

        Args:
            table: to add.
            since: cells of the table at an earlier time, to take off.
        """
        if since is not None:
            table = _difference(table, since)
        head = table.header()
        if head[t.STARTED] < 0:
            self.faults += [name for name, _ in table.spots()]
        if head[t.STARTED] <= 0:
            return
        self.tables += 1
        for cell in _SUMS:
            self.sums[cell] += head[cell]
        used_ns = max(head[t.PROCESS_CPU_NS] - head[t.BASE_CPU_NS], 0)
        waited_s = head[t.RUNQUEUE_NS] / 1e9 if head[t.RUNQUEUE_NS] >= 0 else None
        self._add_workers([Worker(head[t.PID], head[t.BATCHES], used_ns / 1e9, waited_s)])
        self.process_cpu_ns += used_ns
        self.total_cpu_ns += head[t.PROCESS_CPU_NS]
        self.main_cpu_ns += max(head[t.MAIN_CPU_NS] - head[t.BASE_MAIN_CPU_NS], 0)
        unknown = self.runqueue_ns is None or head[t.RUNQUEUE_NS] < 0
        self.runqueue_ns = None if unknown else (self.runqueue_ns or 0) + head[t.RUNQUEUE_NS]
        self.torch_threads = max(self.torch_threads, head[t.TORCH_THREADS])
        self.cv2_threads = max(self.cv2_threads, head[t.CV2_THREADS])
        names = []
        for name, cells in table.slots():
            names.append(name)
            self.slots.setdefault(name, Slot()).add(cells)
        for name, cells in table.spots():
            spot = Spot(names[cells[t.SPOT_SLOT]], bool(cells[t.SPOT_COLLATING]), *cells[:3])
            self._add_spot(name, spot)
        end = t.SLOW + 2 * t.SLOW_COUNT
        pairs = zip(head[t.SLOW : end : 2], head[t.SLOW + 1 : end : 2], strict=True)
        self._add_slowest([(index, spent) for index, spent in pairs if spent])

    def merge(self, other: Figures) -> None:
        """Add other figures."""
        for cell in _SUMS:
            self.sums[cell] += other.sums[cell]
        self.process_cpu_ns += other.process_cpu_ns
        self.main_cpu_ns += other.main_cpu_ns
        self.total_cpu_ns += other.total_cpu_ns
        unknown = self.runqueue_ns is None or other.runqueue_ns is None
        self.runqueue_ns = None if unknown else (self.runqueue_ns or 0) + (other.runqueue_ns or 0)
        self.torch_threads = max(self.torch_threads, other.torch_threads)
        self.cv2_threads = max(self.cv2_threads, other.cv2_threads)
        self.tables += other.tables
        self._add_workers(other.workers)
        self.faults += other.faults
        for name, slot in other.slots.items():
            self.slots.setdefault(name, Slot()).merge(slot)
        for name, spot in other.spots.items():
            self._add_spot(name, spot)
        self._add_slowest(other.slowest)

    def _add_workers(self, workers: list[Worker]) -> None:
        self.workers = [*self.workers, *workers][-_WORKERS:]

    def _add_spot(self, name: str, more: Spot) -> None:
        spot = self.spots.setdefault(name, Spot(more.stage, more.collating))
        for count in _LOOKS:
            setattr(spot, count, getattr(spot, count) + getattr(more, count))

    def _add_slowest(self, pairs: list[tuple[int, int]]) -> None:
        found = {*self.slowest, *pairs}
        self.slowest = sorted(found, key=lambda pair: -pair[1])[: t.SLOW_COUNT]


# Not counters: they stay as they are when an earlier state is taken off.
_STATES: Final = frozenset(
    {t.STARTED, t.PID, t.TORCH_THREADS, t.CV2_THREADS, t.SLOTS, t.SPOTS, t.READY_NS}
    | {t.BASE_CPU_NS, t.BASE_MAIN_CPU_NS}
    | set(range(t.SLOW, t.HEADER))
)


def _difference(table: Table, since: Mapping[int, int]) -> Table:
    """Return a copy of a table, with the counts that it had earlier taken off."""
    copy = Table.private()
    for cell, value in enumerate(table.cells):
        if value:
            copy.cells[cell] = value
    for cell, value in since.items():
        copy.cells[cell] -= value
    return copy


def counts_of(table: Table) -> dict[int, int]:
    """Return a table's counters as they are now, by cell, zeros left out."""
    slots = range(t.HEADER, t.SPOTS_AT)
    counted = [
        *(cell for cell in range(t.HEADER) if cell not in _STATES),
        *(at for at in slots if _counts_in_slot((at - t.HEADER) % t.SLOT)),
        *(
            t.SPOTS_AT + spot * t.SPOT + count
            for spot in range(t.SPOT_COUNT)
            for count in (t.SPOT_PYTHON, t.SPOT_HELD, t.SPOT_RELEASED)
        ),
    ]
    return {cell: table.cells[cell] for cell in counted if table.cells[cell] > 0}


def _counts_in_slot(offset: int) -> bool:
    return offset != t.LONGEST and not t.NAME <= offset < t.BUCKETS_AT
