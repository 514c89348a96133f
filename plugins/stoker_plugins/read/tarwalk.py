"""A walk over the headers of an uncompressed tar: where each member's data lies.

Reads ustar, GNU and pax archives, as `tarfile` does, in a fifth of its time. It
differs in one thing: what `tarfile` takes for the end (a damaged or half
header, archives glued together) is an error here, since samples would be lost.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

BLOCK = 512
_ZEROS = bytes(BLOCK)
_REGULAR = {b"0", b"\0", b"7"}
_KNOWN_WITHOUT_DATA = {b"1", b"2", b"3", b"4", b"5", b"6"}
_PAX_RECORD = re.compile(rb"(\d+) ([^=]+)=")


class Member(NamedTuple):
    """One member that holds data, or a link."""

    name: str
    offset: int
    """Where its data begins, in bytes from the start of the archive."""
    size: int
    link: bool
    """A hard or symbolic link, which has no data of its own."""


class Walk:
    """Iterates over the members of an archive.

    Args:
        fd: a descriptor of it, open for reading.
        path: what errors call it.

    Raises:
        ValueError: while iterating, where the archive is cut or damaged.
    """

    closed = False
    """The end-of-archive mark was seen. Without it an archive may have been cut."""

    def __init__(self, fd: int, path: str) -> None:
        self._fd, self._path = fd, path
        self._size = os.fstat(fd).st_size

    def __iter__(self) -> Iterator[Member]:
        at, longer, everywhere = 0, dict[str, bytes](), dict[str, bytes]()
        while header := os.pread(self._fd, BLOCK, at):
            if header == _ZEROS:
                self._expect_nothing_after(at)
                self.closed = True
                return
            kind, size = self._check(header, at)
            data = at + BLOCK
            if kind in {b"x", b"X", b"g", b"L", b"K"}:
                target = everywhere if kind == b"g" else longer
                self._extend(target, kind, self._payload(data, size, at), at)
                at = data + _padded(size)
                continue
            facts = {**everywhere, **longer}
            if "size" in facts:  # more than the header's eleven digits can say
                if not facts["size"].isdigit():
                    raise self._error(at, f"its size is {facts['size']!r}, which is no number")
                size = int(facts["size"])
            if kind == b"S" or any(name.startswith("GNU.sparse") for name in facts):
                raise self._error(at, "holds a sparse member; write it without --sparse")
            name = facts["path"] if "path" in facts else _name(header)
            holds = kind not in _KNOWN_WITHOUT_DATA and not name.endswith(b"/")
            if holds and data + size > self._size:
                raise self._error(
                    at, f"is cut inside {_text(name)!r}, which needs {size} bytes of data"
                )
            if kind in {b"1", b"2"} or (holds and kind in _REGULAR):
                yield Member(_text(name), data, size, not holds)
            longer.clear()
            at = data + (_padded(size) if holds else 0)
        if at < BLOCK:
            raise self._error(at, "is empty")

    def _error(self, at: int, what: str) -> ValueError:
        return ValueError(f"{self._path} at offset {at}: {what}")

    def _check(self, header: bytes, at: int) -> tuple[bytes, int]:
        """Return the kind and size in a header that proves sound."""
        if len(header) < BLOCK:
            raise self._error(at, f"is cut inside a header, after {len(header)} of {BLOCK} bytes")
        try:
            given = _number(header[148:156])
            # The sum counts the field of the sum itself as eight spaces.
            real = sum(header) - sum(header[148:156]) + 8 * 0x20
            if given != real and given != real - 256 * sum(byte > 127 for byte in header):
                raise ValueError("its checksum is wrong")
            return header[156:157], _number(header[124:136])
        except ValueError as error:
            raise self._error(at, f"no tar header is here: {error}") from None

    def _payload(self, offset: int, size: int, at: int) -> bytes:
        payload = os.pread(self._fd, size, offset)
        if len(payload) < size:
            raise self._error(at, "is cut inside an extended header")
        return payload

    def _extend(self, facts: dict[str, bytes], kind: bytes, payload: bytes, at: int) -> None:
        if kind == b"L":
            facts["path"] = payload.split(b"\0", 1)[0]
        elif kind != b"K":
            position = 0
            while match := _PAX_RECORD.match(payload, position):
                length = int(match[1])
                if length <= match.end() - position:
                    raise self._error(at, "its extended header is damaged")
                facts[_text(match[2])] = payload[match.end() : position + length - 1]
                position += length

    def _expect_nothing_after(self, end: int) -> None:
        at = end
        while block := os.pread(self._fd, 1 << 20, at):
            if block.strip(b"\0"):
                raise self._error(
                    end, "data follows the end-of-archive mark; glued archives must be split"
                )
            at += len(block)


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _number(field: bytes) -> int:
    """Return a number as headers write it: octal, or GNU's base 256."""
    if field[0] in (0x80, 0xFF):
        return int.from_bytes(field[1:], "big") - (256 ** (len(field) - 1) if field[0] > 128 else 0)
    text = field.split(b"\0", 1)[0].strip()
    return int(text, 8) if text else 0


def _name(header: bytes) -> bytes:
    name, prefix = header[:100].split(b"\0", 1)[0], header[345:500].split(b"\0", 1)[0]
    return prefix + b"/" + name if prefix else name


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
