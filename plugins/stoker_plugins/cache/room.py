"""The bytes that all caches of a folder take, counted by all processes that write there.

The count lies in a file. Who writes holds an exclusive lock on it, so that processes together
keep a budget too. After a kill it may be too high; whoever opens a cache counts anew.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager

from stoker_plugins.cache.folder import CacheFolder

_COUNT = struct.Struct("<q")
_FILE = ".taken"
# A process that was stopped while it held the lock must not stop others: they keep no sample.
_TRIES, _PAUSE_S = 100, 0.001


class Room:
    """What is left of a budget.

    Args:
        caches: all caches of the folder, which exists.
        budget: bytes that they may take together.

    Raises:
        OSError: the count cannot be kept.
    """

    def __init__(self, caches: CacheFolder, budget: int) -> None:
        self._caches, self._budget = caches, budget
        self.is_full = False
        """A sample did not fit, even with what nobody uses removed."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._file = os.open(caches.path / _FILE, flags, 0o644)
        try:
            if self._lock():
                self._set(caches.nbytes())
                self._unlock()
        except BaseException:
            self.close()
            raise

    @contextmanager
    def take(self, size: int) -> Iterator[bool]:
        """Say whether so many bytes may be written, and count them; nobody else writes meanwhile.

        What is counted stays so where writing fails: the next one that opens counts anew.

        Args:
            size: in bytes.
        """
        if not self._lock():
            yield False
            return
        try:
            fits = self._fits(size)
            if fits:
                self._set(self._taken() + size)
            yield fits
        finally:
            self._unlock()

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _fits(self, size: int) -> bool:
        if self._taken() + size <= self._budget:
            return True
        taken = self._caches.nbytes()  # others remove too, and a kill leaves too high a count
        if taken + size > self._budget:
            taken -= self._caches.make_room(taken + size - self._budget)
        self._set(taken)
        # A smaller sample may still fit, but to ask again for each would list all files.
        self.is_full = taken + size > self._budget
        return not self.is_full

    def _taken(self) -> int:
        data = os.pread(self._file, _COUNT.size, 0)
        return int(_COUNT.unpack(data)[0]) if len(data) == _COUNT.size else self._caches.nbytes()

    def _set(self, count: int) -> None:
        os.pwrite(self._file, _COUNT.pack(count), 0)

    def _lock(self) -> bool:
        for _ in range(_TRIES):
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_PAUSE_S)
            else:
                return True
        return False

    def _unlock(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)
