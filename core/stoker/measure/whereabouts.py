"""Where a thread is, in words of memory that another process can read.

A sampler outside the process learns which stage a worker is in, and which thread
holds the GIL, without asking the process and so without disturbing it.
"""

from __future__ import annotations

import ctypes
from array import array

NOWHERE = -1
"""Idle, or between stages."""


class Whereabouts:
    """One thread's place. `stage[0]` is the number of the stage it is in, or `NOWHERE`."""

    __slots__ = ("stage", "thread_state")

    def __init__(self) -> None:
        self.stage = array("q", [NOWHERE])
        self.thread_state = 0
        """Address of the thread's interpreter state, by which the GIL names its holder."""

    def enter(self) -> None:
        """Note the calling thread as the one that this is about."""
        get = ctypes.pythonapi.PyThreadState_Get
        get.restype, get.argtypes = ctypes.c_void_p, ()
        self.thread_state = get() or 0

    @property
    def address(self) -> int:
        """Where the stage's number lies in memory (8 bytes)."""
        return self.stage.buffer_info()[0]
