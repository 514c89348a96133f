"""A run folder's lock: held as long as the run lives, gone with its process."""

from __future__ import annotations

import fcntl
import os
import weakref
from pathlib import Path

from stoker.errors import UsageError

NAME = ".lock"


class RunLock:
    """Locks a run folder against all other runs, also those of this process.

    Args:
        folder: of the run.
        fresh: it was made for this run, which may do without where there are no locks.

    Raises:
        UsageError: a live run holds it, or the file system knows no locks.
    """

    def __init__(self, folder: Path, *, fresh: bool = False) -> None:
        try:
            descriptor = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise UsageError(f"{folder}: cannot be locked: {error.strerror or error}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if fresh and not isinstance(error, BlockingIOError):
                self._close = weakref.finalize(self, os.close, descriptor)
                return
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                raise UsageError(
                    f"{folder}: a live run writes there; wait for its end, or stop it"
                ) from error
            raise UsageError(
                f"{folder}: cannot be locked ({error.strerror or error}); put --runs on a file "
                "system that has locks"
            ) from error
        # The file stays: were it removed, two runs could each lock a file of that name.
        self._close = weakref.finalize(self, os.close, descriptor)

    def release(self) -> None:
        """Give the folder free."""
        self._close()
