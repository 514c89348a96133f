"""A cache on disk, for later runs too and for all processes of this machine."""

from __future__ import annotations

import os
import shutil
import threading
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar

from stoker.cache import Cache, Fed, Store
from stoker.errors import UsageError
from stoker.parameters import param
from stoker.sample import Address, Sample
from stoker.stages import Surroundings
from stoker_plugins.cache.copies import seal
from stoker_plugins.cache.folder import CacheFolder
from stoker_plugins.cache.packing import pack, unpack
from stoker_plugins.cache.records import DamagedError, Records, RecordWriter, record_nbytes
from stoker_plugins.cache.room import Room

# Of what is free on the disk, where no budget is given.
SHARE = 0.5
# How often others' files are looked at for what they have written meanwhile.
_LOOK_EVERY_S = 5.0


@dataclass(frozen=True)
class Disk(Cache):
    """Keep samples in files, as many as the budget holds; the others are made each time.

    A folder of its own for all that makes the samples: other data, another parameter, other
    code or another version of a library begin a new one. Older ones are removed when room is
    needed and nobody uses them. `max_bytes` holds for the whole folder, all caches and processes
    together; without it that is half of what is free on the disk and of what they take. Several
    processes may use one at once: what one has written the others find. Every sample has a
    checksum; a damaged one is made again. A full disk ends the keeping, never the run.
    """

    name: ClassVar[str] = "cache.disk"
    lasting: ClassVar[bool] = True
    example: ClassVar[str] = 'cache.Disk("/fast/cache", max_bytes=200 * 10**9)'

    folder: str | Path = param(help="folder for the cache's files; made where it is missing")

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield what is wrong with where it stands, and with its folder."""
        yield from super().check(around)
        fault = self._fault_of_folder()
        if fault:
            yield f"folder={str(self.folder)!r}: {fault}"

    def _fault_of_folder(self) -> str:
        try:
            there = _nearest(self._place)
        except (OSError, RuntimeError) as error:  # a closed parent; a user that is not there
            return f"{error}; give a folder that this user may write to"
        if not there.is_dir():
            return f"{there} is a file; give a folder"
        if not os.access(there, os.W_OK | os.X_OK):
            return f"{there} cannot be written to by this user; give another, or set its rights"
        return ""

    @property
    def _place(self) -> Path:
        return Path(self.folder).expanduser().absolute()

    def budget(self) -> int:
        """Return the bytes that it would keep at the most."""
        return self.max_bytes or self._share_of_free()

    def _share_of_free(self) -> int:
        free = shutil.disk_usage(_nearest(self._place)).free
        return int((free + CacheFolder(self._place).nbytes()) * SHARE)

    def nbytes_of(self, sample: Sample) -> int:
        """Return the bytes that a sample's record takes, of an address of one number."""
        return record_nbytes(pack(0, sample))

    def store(self, fed: Fed) -> Store:
        """Return the store of what feeds it.

        Raises:
            UsageError: its folder cannot be made or read.
        """
        try:
            return DiskStore(self._place, fed, self.budget())
        except OSError as error:
            reason = error.strerror or str(error)
            raise UsageError(
                f"cache.disk: folder {str(self.folder)!r} cannot be used: {reason}; "
                "give a folder that this user may write to"
            ) from error


def _nearest(place: Path) -> Path:
    """Return a path, or the nearest above it that is there."""
    return next(path for path in (place, *place.parents) if path.exists())


class DiskStore(Store):
    """Keeps samples in files of records.

    Args:
        folder: of the whole cache.
        fed: what feeds it, which names the folder of these samples.
        budget: bytes that the whole cache may take.
    """

    def __init__(self, folder: Path, fed: Fed, budget: int) -> None:
        caches = CacheFolder(folder)
        self._own = caches.use(fed)
        self._records = Records(self._own)
        try:
            self._room = Room(caches, budget)
        except BaseException:
            self._own.close()
            raise
        self._writer: RecordWriter | None = None
        self._said: set[str] = set()
        self._lock = threading.Lock()
        """Held by who writes, or looks for what others wrote."""
        self._is_done = False
        """No more samples are kept."""
        self._look()

    def has(self, address: Address) -> bool:
        """Say whether a sample is kept, by this process or another."""
        if self._records.has(address):
            return True
        if monotonic() - self._looked > _LOOK_EVERY_S and self._lock.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._lock.release()
            return self._records.has(address)
        return False

    def _look(self) -> None:
        self._looked = monotonic()
        try:
            self._records.look()
        except OSError as error:  # what cannot be read is made again
            self._say("read", f"files cannot be read, their samples are made again: {error}")
        if self._records.damaged:
            what = f"{self._records.damaged} is damaged, samples in it are made again"
            self._say("damage", what)

    def get(self, address: Address) -> Sample | None:
        """Return a sample, its arrays read-only; None where its record is damaged."""
        try:
            record = self._records.read(address)
            return None if record is None else unpack(record)[1]
        except (OSError, DamagedError) as error:
            self._records.forget(address)
            self._say("damage", f"a kept sample is damaged and made again: {error}")
            return None

    def put(self, address: Address, sample: Sample) -> None:
        """Keep a sample, if there is room.

        Raises:
            TypeError: it holds something that cannot be told in bytes.
        """
        seal(sample)
        if self._is_done or self._records.has(address):
            return
        buffers = pack(address, sample)
        with self._lock:
            if self._is_done or self._records.has(address):  # by another thread meanwhile
                return
            try:
                self._write(address, buffers)
            except OSError as error:  # a full disk costs later epochs their time, not the run
                self._is_done = True
                self._say("room", f"it keeps no more samples: {error.strerror or error}")

    def _write(self, address: Address, buffers: list[Any]) -> None:
        with self._room.take(record_nbytes(buffers)) as fits:
            self._is_done = self._room.is_full
            if not fits:
                return
            if self._writer is None:
                self._writer = RecordWriter(self._own)
            self._writer.append(buffers)
        self._records.add(address, self._writer)

    def _say(self, about: str, what: str) -> None:
        """Warn, once about each thing: one damaged file would tell of each of its samples."""
        if about not in self._said:
            self._said.add(about)
            warnings.warn(f"cache.disk: {what}", RuntimeWarning, stacklevel=2)

    @property
    def nbytes(self) -> int:
        """Bytes that are kept of these samples."""
        return self._records.nbytes

    @property
    def count(self) -> int:
        """Samples that are kept."""
        return len(self._records)

    def close(self) -> None:
        """Close all files."""
        with self._lock:
            self._is_done = True
            if self._writer is not None:
                self._writer.close()
            self._records.close()
            self._room.close()
            self._own.close()
