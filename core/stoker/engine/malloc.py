"""Keeps glibc from giving memory back to the system between batches.

By default every buffer over a threshold is mapped anew and given back when freed,
so each decoded picture costs a page fault for every 4 KiB (measured: about 10 % of
the CPU of a JPEG pipeline). Raised thresholds let freed buffers be used again.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache

# Parameters of mallopt(3), and the highest values that glibc accepts.
_TRIM, _MMAP = -1, -3
TRIM_BYTES, MMAP_BYTES = 512 << 20, 32 << 20


@cache
def keep_freed_memory() -> bool:
    """Raise the thresholds for this process, once; return whether they were.

    `STOKER_MALLOC=0` leaves them, as does another C library.
    """
    if os.environ.get("STOKER_MALLOC") == "0":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    mallopt.argtypes, mallopt.restype = (ctypes.c_int, ctypes.c_int), ctypes.c_int
    return bool(mallopt(_MMAP, MMAP_BYTES)) and bool(mallopt(_TRIM, TRIM_BYTES))
