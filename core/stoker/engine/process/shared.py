"""Slots of shared memory that arrays cross in, from one process to another.

Each slot is an anonymous file (memfd): it is in no directory, so a killed process
leaves nothing behind, and the size of /dev/shm does not matter. Its pages are claimed
before use, so that none can be missing later. The descriptor crosses once and is then
closed on both sides: the mapping holds the memory.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from collections import deque
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

ALIGN = 64
MIN_SLOT = 64 << 10
MAX_SLOTS = 128


class Handed(NamedTuple):
    """A slot on its way: its number, size, and the bytes of each buffer in it."""

    slot: int
    size: int
    is_new: bool
    sizes: tuple[int, ...]


class Slots:
    """The sender's side: finds a free slot for buffers and copies them in.

    Args:
        bound: bytes that all slots may take together.
    """

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._sizes: dict[int, int] = {}
        self._free: dict[int, Any] = {}
        self._busy: dict[int, Any] = {}
        self._next = 0
        self.retired: list[int] = []
        """Slots that the receiver shall forget, with the next message."""
        self.refused = ""
        """Why no more slots can be made, "" while they can."""

    def put(self, buffers: Sequence[memoryview]) -> tuple[Handed | None, int | None]:
        """Copy buffers into a slot.

        Returns:
            the slot, and a descriptor to send along and close where it is new; or None
            where there is no room.
        """
        sizes = tuple(buffer.nbytes for buffer in buffers)
        needed = sum(map(_aligned, sizes))
        number, fd = self._take(needed)
        if number is None:
            return None, None
        import numpy

        target = numpy.frombuffer(self._busy[number], numpy.uint8)
        at = 0
        for buffer, size in zip(buffers, sizes, strict=True):
            # NumPy lets the GIL go while it copies.
            numpy.copyto(target[at : at + size], numpy.frombuffer(buffer, numpy.uint8))
            at += _aligned(size)
        return Handed(number, self._sizes[number], fd is not None, sizes), fd

    def came_back(self, slots: Sequence[int]) -> None:
        """Hear from the receiver that slots are free again."""
        for slot in slots:
            if slot in self._busy:
                self._free[slot] = self._busy.pop(slot)

    def _take(self, needed: int) -> tuple[int | None, int | None]:
        fitting = [s for s in self._free if needed <= self._sizes[s] <= 4 * max(needed, MIN_SLOT)]
        if fitting:
            number = min(fitting, key=self._sizes.__getitem__)
            self._busy[number] = self._free.pop(number)
            return number, None
        size = _slot_size(needed)
        while self._free and not self._has_room(size):
            self._retire(next(iter(self._free)))
        if self.refused or not self._has_room(size):
            return None, None
        try:
            fd, memory = _new(size)
        except OSError as error:
            self.refused = f"{error.strerror or error} ({size:,} bytes were asked for)"
            return None, None
        number, self._next = self._next, self._next + 1
        self._sizes[number], self._busy[number] = size, memory
        return number, fd

    def _has_room(self, size: int) -> bool:
        return len(self._sizes) < MAX_SLOTS and sum(self._sizes.values()) + size <= self._bound

    def _retire(self, slot: int) -> None:
        del self._free[slot], self._sizes[slot]
        self.retired.append(slot)


class Views:
    """The receiver's side: buffers that are views of slots, and which of them are still used.

    Args:
        bound: bytes that may be in use as views; what goes beyond is copied out.
    """

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._slots: dict[int, Any] = {}
        self._live: dict[int, int] = {}
        # Views die in any thread, and within any call: appending needs no lock.
        self._dead: deque[int] = deque()
        self._free: list[int] = []

    def get(self, handed: Handed, fd: int | None) -> list[memoryview]:
        """Return the buffers of a message."""
        if handed.is_new:
            if fd is None:
                raise OSError("no descriptor came with it: the limit on open files is reached")
            self._slots[handed.slot] = _mapped(fd, handed.size)
        self._collect()
        memory = self._slots[handed.slot]
        # An object of its own for each use, which dies with the last view of it.
        use = (ctypes.c_ubyte * handed.size).from_buffer(memory)
        whole = memoryview(use).cast("B")
        buffers, at = [], 0
        for size in handed.sizes:
            buffers.append(whole[at : at + size])
            at += _aligned(size)
        if len(self._live) >= MAX_SLOTS // 2 or (
            sum(self._live.values()) + handed.size > self._bound
        ):
            self._free.append(handed.slot)
            return [_copy(buffer) for buffer in buffers]
        self._live[handed.slot] = handed.size
        weakref.finalize(use, self._dead.append, handed.slot).atexit = False
        return buffers

    def forget(self, slots: Sequence[int]) -> None:
        """Let go of slots that the sender gave up."""
        for slot in slots:
            self._slots.pop(slot, None)

    def freed(self) -> list[int]:
        """Return the slots that became free since the last call, for the sender."""
        self._collect()
        freed, self._free = self._free, []
        return freed

    def _collect(self) -> None:
        while self._dead:
            slot = self._dead.popleft()
            del self._live[slot]
            self._free.append(slot)


def _copy(buffer: memoryview) -> memoryview:
    import numpy

    copied: Any = numpy.array(numpy.frombuffer(buffer, numpy.uint8))
    return memoryview(copied)


def _aligned(size: int) -> int:
    return -(-size // ALIGN) * ALIGN


def _slot_size(needed: int) -> int:
    """Return a size that others can use, too: a quarter of a power of two, times 4 to 8."""
    if needed <= MIN_SLOT:
        return MIN_SLOT
    step = 1 << ((needed - 1).bit_length() - 3)
    return -(-needed // step) * step


def _new(size: int) -> tuple[int, Any]:
    if not hasattr(os, "memfd_create"):
        raise OSError("this system has no memfd_create")
    fd = os.memfd_create("stoker", os.MFD_CLOEXEC)
    try:
        os.posix_fallocate(fd, 0, size)
        return fd, _mapped(fd, size)
    except BaseException:
        os.close(fd)
        raise


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    )
    libc.munmap.restype, libc.munmap.argtypes = ctypes.c_int, (ctypes.c_void_p, ctypes.c_size_t)
    return libc


def _mapped(fd: int, size: int) -> Any:
    """Map a file; the mapping ends with the object that is returned.

    Python's own `mmap` would keep a descriptor open for each slot.
    """
    flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
    address = _libc().mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, fd, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    memory = (ctypes.c_ubyte * size).from_address(address)
    weakref.finalize(memory, _libc().munmap, address, size).atexit = False
    return memory
