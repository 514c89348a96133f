"""The folder of a cache on disk: one folder in it for each thing that feeds it.

Who uses one holds a shared lock on a file in it; it is removed only under an exclusive one.
The system lets go of a lock with the process that held it, however that ends.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from stoker.cache import Fed

_LOCK, _ABOUT = ".lock", "about.txt"
# Names what is a cache, so that nothing else in the folder is ever removed.
_PREFIX = "samples-"
_NAME = re.compile(rf"{_PREFIX}[0-9a-f]{{32}}")
_TRIES = 20


@dataclass(frozen=True)
class CacheFolder:
    """All caches that lie in one folder."""

    path: Path

    def use(self, fed: Fed) -> UsedFolder:
        """Return the folder of what feeds a cache, made at need and in use until it is closed.

        Raises:
            OSError: it cannot be made or locked.
        """
        place = self.path / f"{_PREFIX}{fed.fingerprint}"
        for _ in range(_TRIES):
            place.mkdir(parents=True, exist_ok=True)
            try:
                lock = os.open(place / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except FileNotFoundError:  # somebody removed the folder in between
                continue
            fcntl.flock(lock, fcntl.LOCK_SH)
            if _is_that_of(lock, place):
                break
            os.close(lock)
        else:
            raise OSError(f"{place.name} is removed again and again")
        about = place / _ABOUT
        if not about.exists():
            about.write_text(f"{fed.text}\n", encoding="utf-8")
        os.utime(about)  # last used
        return UsedFolder(place, lock)

    def nbytes(self) -> int:
        """Return the bytes of all caches."""
        return sum(map(_size, self._caches()))

    def make_room(self, wanted: int) -> int:
        """Remove caches that nobody uses, the one not used for longest first.

        Returns:
            Bytes that this freed: as many as wanted, or all that could be.
        """
        freed = 0
        for cache in sorted(self._caches(), key=_last_used):
            if freed >= wanted:
                break
            freed += _remove_unused(cache)
        return freed

    def _caches(self) -> list[Path]:
        try:
            return [path for path in self.path.iterdir() if _NAME.fullmatch(path.name)]
        except OSError:
            return []


@dataclass(frozen=True)
class UsedFolder:
    """The folder of one cache, which nobody removes until it is closed."""

    path: Path
    lock: int

    def names(self, suffix: str) -> list[str]:
        """Return the names of its files with a suffix, in order."""
        return sorted(name for name in os.listdir(self.path) if name.endswith(suffix))

    def following(self) -> int:
        """Return a number for a new file, above those of all that are there."""
        numbers = [name.partition("-")[0] for name in os.listdir(self.path)]
        return max((int(number) for number in numbers if number.isdigit()), default=0) + 1

    def close(self) -> None:
        """Let others remove it."""
        os.close(self.lock)


def _is_that_of(lock: int, cache: Path) -> bool:
    """Whether a lock file is still the one that its folder has, and not one that was removed."""
    try:
        there = os.stat(cache / _LOCK)
    except OSError:
        return False
    return os.path.samestat(os.fstat(lock), there)


def _size(cache: Path) -> int:
    total = 0
    try:
        with os.scandir(cache) as entries:
            for entry in entries:
                total += entry.stat().st_size
    except OSError:  # removed meanwhile
        return total
    return total


def _last_used(cache: Path) -> float:
    try:
        return (cache / _ABOUT).stat().st_mtime
    except OSError:
        return 0.0


def _remove_unused(cache: Path) -> int:
    """Remove a cache unless somebody uses it; return the bytes that it had."""
    try:
        # Made where it is missing: a removal that was cut short has left the rest.
        lock = os.open(cache / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError:
        return 0
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return 0
    else:
        size = _size(cache)
        shutil.rmtree(cache, ignore_errors=True)
        return size if not cache.exists() else 0
    finally:
        os.close(lock)
