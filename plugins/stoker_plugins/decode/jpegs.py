"""What a JPEG file says of itself before its pixels (ITU-T T.81, annex B)."""

from __future__ import annotations

from typing import NamedTuple

from stoker_plugins.decode.exif import orientation

_START, _SCAN, _END, _EXIF = 0xD8, 0xDA, 0xD9, 0xE1
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # these three are no frames
_ALONE = frozenset({0x01, *range(0xD0, 0xD9)})
"""Markers without a length."""


class Header(NamedTuple):
    """Size, components and orientation of a JPEG picture."""

    height: int
    width: int
    components: int
    orientation: int
    """As EXIF has it: 1 is upright."""


def read_header(data: bytes) -> Header | None:
    """Return the header of a JPEG of 8 bits, None where there is none that is whole.

    Args:
        data: the file.
    """
    if data[:2] != b"\xff\xd8":
        return None
    at, size, exif = 2, len(data), b""
    frame: tuple[int, int, int] | None = None
    while at + 4 <= size:
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF:  # fill
            at += 1
            continue
        if marker in _ALONE:
            at += 2
            continue
        if marker in (_SCAN, _END):
            break
        length = data[at + 2] << 8 | data[at + 3]
        if length < 2 or at + 2 + length > size:
            return None
        if marker in _FRAMES:
            if length < 8 or data[at + 4] != 8:
                return None
            height = data[at + 5] << 8 | data[at + 6]
            width = data[at + 7] << 8 | data[at + 8]
            frame = height, width, data[at + 9]
        elif marker == _EXIF and data[at + 4 : at + 10] == b"Exif\0\0":
            # Long data is spread over several segments.
            exif += data[at + 4 + (6 if exif else 0) : at + 2 + length]
        at += 2 + length
    if frame is None or not frame[0] or not frame[1]:
        return None
    return Header(*frame, orientation(exif) if exif else 1)
