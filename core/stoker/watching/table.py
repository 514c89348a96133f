"""Figures in memory that worker and parent share: a worker that is killed loses none.

Each worker writes a table of its own, of 64-bit cells; the parent reads it at any time.
The memory has no name in any file system, so nothing can be left over.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from multiprocessing.reduction import DupFd
from typing import Any, Final

# -- header: one cell each ------------------------------------------------------------
STARTED: Final = 0
PID: Final = 1
TORCH_THREADS: Final = 2
"""The most intra-op threads that torch was seen set to."""
CV2_THREADS: Final = 3
SLOTS: Final = 4
SPOTS: Final = 5
BATCHES: Final = 6
ITEMS: Final = 7
METERED_BATCHES: Final = 8
METERED_ITEMS: Final = 9
HOOKED_ITEMS: Final = 10
"""Metered items whose transforms were metered too."""
BUSY_NS: Final = 11
"""Wall time in all batches."""
PROCESS_CPU_NS: Final = 12
MAIN_CPU_NS: Final = 13
"""CPU time of the thread that loads."""
FEEDER_CPU_NS: Final = 14
"""CPU time of the thread that sends batches to the parent."""
SAMPLER_CPU_NS: Final = 15
RUNQUEUE_NS: Final = 16
"""The loading thread ready and waiting for a core, -1 where the system does not tell."""
READY_NS: Final = 17
"""When the worker was ready for its first batch, on the clock of the machine."""
DECODED: Final = 18
DECODED_PIXELS: Final = 19
DECODED_JPEG: Final = 20
LISTS: Final = 21
"""Metered batches that left collate as the list of samples that came in."""
BASE_CPU_NS: Final = 23
"""CPU time of the process before it was ready."""
BASE_MAIN_CPU_NS: Final = 24
SETUP_CPU_NS: Final = 25
"""CPU time that it took to get ready to meter."""
SLOW: Final = 32
"""Pairs of index and duration in ns: the slowest items seen."""
SLOW_COUNT: Final = 8
HEADER: Final = 64

# -- slots: what was metered, one record each ---------------------------------------------
CALLS, WALL, OWN_WALL, CPU, OWN_CPU, LONGEST, PYTHON, HELD, RELEASED, FAILED = range(10)
NAME: Final = 10
NAME_CELLS: Final = 8
BUCKETS_AT: Final = NAME + NAME_CELLS
# Up to 2^40 ns, 18 minutes; see `stoker.measure.histogram`.
BUCKETS: Final = 304
SLOT: Final = BUCKETS_AT + BUCKETS
SLOT_COUNT: Final = 40

# -- spots: where the sampler found the thread ---------------------------------------------
SPOT_PYTHON, SPOT_HELD, SPOT_RELEASED, SPOT_SLOT, SPOT_COLLATING = range(5)
SPOT_NAME: Final = 5
SPOT_NAME_CELLS: Final = 14
SPOT: Final = SPOT_NAME + SPOT_NAME_CELLS
SPOT_COUNT: Final = 48

SPOTS_AT: Final = HEADER + SLOT_COUNT * SLOT
CELLS: Final = SPOTS_AT + SPOT_COUNT * SPOT


class Table:
    """Cells with names; written by one process."""

    __slots__ = ("_bytes", "cells")

    def __init__(self, memory: memoryview) -> None:
        self._bytes = memory.cast("B")
        self.cells = self._bytes.cast("q")

    @classmethod
    def private(cls) -> Table:
        """Return a table that only this process sees."""
        return cls(memoryview(bytearray(CELLS * 8)))

    def name_slot(self, slot: int, name: str) -> None:
        """Write a slot's name, cut to what fits."""
        self._write(HEADER + slot * SLOT + NAME, NAME_CELLS, name)
        self.cells[SLOTS] = max(self.cells[SLOTS], slot + 1)

    def name_spot(self, spot: int, name: str) -> None:
        """Write a spot's name, cut to what fits."""
        self._write(SPOTS_AT + spot * SPOT + SPOT_NAME, SPOT_NAME_CELLS, name)
        self.cells[SPOTS] = max(self.cells[SPOTS], spot + 1)

    def slots(self) -> Iterator[tuple[str, list[int]]]:
        """Yield each slot's name and cells."""
        for slot in range(self.cells[SLOTS]):
            at = HEADER + slot * SLOT
            yield self._read(at + NAME, NAME_CELLS), list(self.cells[at : at + SLOT])

    def spots(self) -> Iterator[tuple[str, list[int]]]:
        """Yield each spot's name and counts."""
        for spot in range(self.cells[SPOTS]):
            at = SPOTS_AT + spot * SPOT
            yield self._read(at + SPOT_NAME, SPOT_NAME_CELLS), list(self.cells[at : at + SPOT_NAME])

    def header(self) -> list[int]:
        """Return the header's cells."""
        return list(self.cells[:HEADER])

    def _write(self, cell: int, count: int, text: str) -> None:
        data = text.encode()[: count * 8]
        data = data.decode(errors="ignore").encode()  # no half of a character
        self._bytes[cell * 8 : (cell + count) * 8] = data.ljust(count * 8, b"\0")

    def _read(self, cell: int, count: int) -> str:
        data = bytes(self._bytes[cell * 8 : (cell + count) * 8])
        return data.rstrip(b"\0").decode(errors="replace")


class Region:
    """Shared memory that holds a table for each worker; can be sent to a process at its start."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._descriptor: int | None = _nameless_file(count * CELLS * 8)
        self._map = mmap.mmap(self._descriptor, count * CELLS * 8)

    def table(self, worker: int) -> Table:
        """Return a worker's table."""
        size = CELLS * 8
        return Table(memoryview(self._map)[worker * size : (worker + 1) * size])

    def seal(self) -> None:
        """Give the file descriptor back: all workers have started."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __del__(self) -> None:
        self.seal()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._descriptor is None:
            raise TypeError("this region is sealed: it can be sent only while workers start")
        return _attached, (DupFd(self._descriptor), self.count)


def _attached(handle: Any, count: int) -> Region:
    region = Region.__new__(Region)
    region.count = count
    region._descriptor = handle.detach()
    region._map = mmap.mmap(region._descriptor, count * CELLS * 8)
    region.seal()
    return region


def _nameless_file(size: int) -> int:
    """Return a descriptor of a file without a name, in memory where the system can."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("stoker-watch")
    else:
        descriptor, name = tempfile.mkstemp()
        os.unlink(name)
    os.ftruncate(descriptor, size)
    return descriptor
