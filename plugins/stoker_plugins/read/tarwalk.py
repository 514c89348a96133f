"""A walk over the headers of a tar: where each member's data lies.

Reads ustar, GNU and pax archives, as `tarfile` does, in a fifth of its time. It
differs in one thing: what `tarfile` takes for the end (a damaged or half
header, archives glued together) is an error here, since samples would be lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

BLOCK = 512
_ZEROS = bytes(BLOCK)
_REGULAR = {b"0", b"\0", b"7"}
_LINKS = {b"1", b"2"}
_WITHOUT_DATA = {b"1", b"2", b"3", b"4", b"5", b"6"}
_EXTENDED = {b"x", b"X", b"g", b"L", b"K"}
_SPARSE = "holds a sparse member, whose data lies in pieces; write it without --sparse"
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
        read: gives so many bytes (fewer at its end) at an offset. Offsets never go
            back, and what the caller reads of a member lies before the next header:
            so a stream will do.
        path: what errors call it.
        size: of the archive in bytes, or None where that is not known; then who reads
            the data has to see that none is missing.

    Raises:
        ValueError: while iterating, where the archive is cut or damaged.
    """

    closed = False
    """The end-of-archive mark was seen. Without it an archive may have been cut."""

    def __init__(
        self, read: Callable[[int, int], bytes], path: str, size: int | None = None
    ) -> None:
        self._read, self._path, self._size = read, path, size

    def __iter__(self) -> Iterator[Member]:
        # Extended headers: for all members after it (pax "g"), and for the next one only.
        everywhere, longer = dict[str, bytes](), dict[str, bytes]()
        at = 0
        while header := self._read(BLOCK, at):
            if header == _ZEROS:
                self._expect_nothing_after(at)
                self.closed = True
                return
            kind, size = self._check(header, at)
            data = at + BLOCK
            if kind in _EXTENDED:
                self._extend(everywhere if kind == b"g" else longer, kind, data, size, at)
                at = data + _padded(size)
                continue
            name = _name(header)
            if longer or everywhere:
                name, size = self._overridden({**everywhere, **longer}, name, size, at)
                longer.clear()
            if kind == b"S":
                raise self._error(at, _SPARSE)
            holds = kind not in _WITHOUT_DATA and not name.endswith(b"/")
            if holds and self._size is not None and data + size > self._size:
                raise self.cut(at, f"{_text(name)!r}, of {size} bytes")
            if kind in _LINKS or (holds and kind in _REGULAR):
                yield Member(_text(name), data, size, not holds)
            at = data + (_padded(size) if holds else 0)
        if at == 0:
            raise self._error(at, "is empty")
        if self._size is not None and self._size < at:
            raise self.cut(self._size, "a block")

    def cut(self, at: int, inside: str) -> ValueError:
        """Return the error for something at an offset that ends too soon."""
        return self._error(at, f"is cut inside {inside}")

    def _error(self, at: int, what: str) -> ValueError:
        return ValueError(f"{self._path} at offset {at}: {what}")

    def _check(self, header: bytes, at: int) -> tuple[bytes, int]:
        """Return the kind and size in a header that proves sound."""
        if len(header) < BLOCK:
            raise self._error(at, f"is cut inside a header, after {len(header)} of {BLOCK} bytes")
        try:
            given = _number(header[148:156])
            # The sum counts the field of the sum itself as eight spaces.
            real = sum(header[:148]) + 8 * 0x20 + sum(header[156:])
            # Some old writers added signed bytes.
            if given != real and given != real - 256 * sum(byte > 127 for byte in header):
                raise ValueError("its checksum is wrong")
            size = _number(header[124:136])
            if size < 0:
                raise ValueError(f"its size is {size}")
            return header[156:157], size
        except ValueError as error:
            raise self._error(at, f"no tar header is here: {error}") from None

    def _extend(
        self, facts: dict[str, bytes], kind: bytes, offset: int, size: int, at: int
    ) -> None:
        payload = self._read(size, offset)
        if len(payload) < size:
            raise self._error(at, "is cut inside an extended header")
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

    def _overridden(
        self, facts: dict[str, bytes], name: bytes, size: int, at: int
    ) -> tuple[bytes, int]:
        if any(fact.startswith("GNU.sparse") for fact in facts):
            raise self._error(at, _SPARSE)
        text = facts.get("size")
        if text is not None:  # more than the header's eleven digits can say
            if not text.isdigit():
                raise self._error(at, f"its size is {text!r}, which is no number")
            size = int(text)
        return facts.get("path", name), size

    def _expect_nothing_after(self, end: int) -> None:
        at = end + BLOCK
        while block := self._read(1 << 20, at):
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
