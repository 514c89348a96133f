"""Files of records: appended to by one process each, read by all.

A record is a head (mark, length, checksum) and what was packed. A file that a kill cut off in
the middle of a record is good up to there.
"""

from __future__ import annotations

import os
import secrets
import struct
import threading
import zlib
from collections.abc import Sequence
from typing import Any

from stoker.sample import Address
from stoker_plugins.cache.folder import UsedFolder
from stoker_plugins.cache.packing import ALIGNMENT, address_of

SUFFIX = ".samples"
_MARK = b"STOKER-1"
_HEAD = struct.Struct("<8sQI")
# As wide as the alignment, so that the packed data of a record lies aligned in its file too.
_HEAD_NBYTES = ALIGNMENT
# Where in a file a record begins fits into these bits of a place, and the file's number above.
_OFFSET_BITS = 44
# Addresses mostly fit into this; longer ones are read once more.
_GLANCE_NBYTES = 512


# What reading an address out of bytes that are none raises.
_NO_RECORD = (ValueError, SyntaxError, TypeError, MemoryError, RecursionError)


class DamagedError(ValueError):
    """A record is not what was written."""


class Records:
    """What lies in a folder's files: by address, and read on demand by any thread.

    Args:
        folder: whose files they are.
    """

    def __init__(self, folder: UsedFolder) -> None:
        self._folder = folder
        self._places: dict[Address, int] = {}
        self._files: list[int] = []
        """Descriptors, by number."""
        self._numbers: dict[str, int] = {}
        """Of files, by name."""
        self._seen: dict[str, int] = {}
        """How far each file was looked at, in bytes."""
        self._lock = threading.Lock()
        self.nbytes = 0
        """In whole records."""
        self.damaged = ""
        """A file whose records cannot all be found, since something else lies between them."""

    def __len__(self) -> int:
        return len(self._places)

    def has(self, address: Address) -> bool:
        """Say whether there is a record."""
        return address in self._places

    def look(self) -> None:
        """Find what files have come to hold since the last look."""
        with self._lock:
            for name in self._folder.names(SUFFIX):
                file = self._file(name)
                self._seen[name] = self._scan(file, name, os.fstat(file).st_size)

    def add(self, address: Address, writer: RecordWriter) -> None:
        """Take what was just written into account."""
        with self._lock:
            self._file(writer.name)
            self._note(address, writer.name, writer.last, writer.end - writer.last)
            self._seen[writer.name] = writer.end

    def read(self, address: Address) -> bytes | None:
        """Return what was packed, None where there is no such record.

        Raises:
            DamagedError: the record is not what was written.
            OSError: the file cannot be read.
        """
        place = self._places.get(address)
        if place is None:
            return None
        file, offset = self._files[place >> _OFFSET_BITS], place & ((1 << _OFFSET_BITS) - 1)
        size, checksum = _head(os.pread(file, _HEAD_NBYTES, offset))
        if offset + _HEAD_NBYTES + size > os.fstat(file).st_size:  # no memory for what is not there
            raise DamagedError(f"{self._name(place)} at byte {offset}: it is cut off")
        data = os.pread(file, size, offset + _HEAD_NBYTES)
        if len(data) != size or zlib.crc32(data) != checksum:
            raise DamagedError(f"{self._name(place)} at byte {offset}: its checksum is another")
        return data

    def forget(self, address: Address) -> None:
        """Let go of a record, so that another takes its place."""
        with self._lock:
            self._places.pop(address, None)

    def close(self) -> None:
        """Close all files."""
        with self._lock:
            self._places = {}
            for file in self._files:
                os.close(file)
            self._files = []

    def _name(self, place: int) -> str:
        number = place >> _OFFSET_BITS
        return next(name for name, other in self._numbers.items() if other == number)

    def _file(self, name: str) -> int:
        """Return the descriptor of a file, opened at need."""
        number = self._numbers.get(name)
        if number is None:
            self._files.append(os.open(self._folder.path / name, os.O_RDONLY | os.O_CLOEXEC))
            number = self._numbers[name] = len(self._files) - 1
        return self._files[number]

    def _scan(self, file: int, name: str, end: int) -> int:
        """Note the records of a file from where it was left; return where the last one ends."""
        at = self._seen.get(name, 0)
        while at + _HEAD_NBYTES < end:
            glance = os.pread(file, _HEAD_NBYTES + _GLANCE_NBYTES, at)
            try:
                size, _ = _head(glance[:_HEAD_NBYTES])
                if at + _HEAD_NBYTES + size > end:
                    return at  # cut off, or still being written
                address = self._address(file, at, size, glance[_HEAD_NBYTES:])
                self._note(address, name, at, _HEAD_NBYTES + size)
            except _NO_RECORD:
                self.damaged = name
                return at  # what follows cannot be found any more
            at += _HEAD_NBYTES + size
        return at

    def _address(self, file: int, at: int, size: int, glance: bytes) -> Address:
        try:
            return address_of(glance)
        except ValueError:
            return address_of(os.pread(file, size, at + _HEAD_NBYTES))

    def _note(self, address: Address, name: str, offset: int, size: int) -> None:
        self._places[address] = self._numbers[name] << _OFFSET_BITS | offset
        self.nbytes += size


def _head(data: bytes) -> tuple[int, int]:
    """Return length and checksum that a record's head tells."""
    if len(data) < _HEAD_NBYTES:
        raise DamagedError("a record's head is cut off")
    mark, size, checksum = _HEAD.unpack_from(data)
    if mark != _MARK:
        raise DamagedError("a record's head is not one")
    return size, checksum


def record_nbytes(buffers: Sequence[Any]) -> int:
    """Return the bytes that a record of what was packed takes."""
    return _HEAD_NBYTES + sum(map(len, buffers))


class RecordWriter:
    """Appends records to a file of its own.

    Args:
        folder: where the file is made.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, folder: UsedFolder) -> None:
        # By time, so that of two records of one sample the later one counts.
        self.name = f"{folder.following():08d}-{secrets.token_hex(4)}{SUFFIX}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file = os.open(folder.path / self.name, flags, 0o644)
        self.last = self.end = 0
        """Where the last record begins and ends, in bytes."""

    def append(self, buffers: Sequence[Any]) -> None:
        """Append a record.

        Raises:
            OSError: it could not be written; what was is cut off again.
        """
        checksum = 0
        for part in buffers:
            checksum = zlib.crc32(part, checksum)
        size = record_nbytes(buffers) - _HEAD_NBYTES
        head = _HEAD.pack(_MARK, size, checksum).ljust(_HEAD_NBYTES, b"\0")
        try:
            self._write([head, *buffers])
        except OSError:
            os.ftruncate(self._file, self.end)
            raise
        self.last, self.end = self.end, self.end + _HEAD_NBYTES + size

    def _write(self, buffers: Sequence[Any]) -> None:
        left = [memoryview(part) for part in buffers if len(part)]
        at = self.end
        while left:
            done = os.pwritev(self._file, left[:_AT_ONCE], at)
            at += done
            while left and done >= len(left[0]):
                done -= len(left.pop(0))
            if left and done:
                left[0] = left[0][done:]

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


_AT_ONCE = 512  # fewer than IOV_MAX
