"""Which way up a picture is, from its EXIF data, without Pillow's warnings about bad ones."""

from __future__ import annotations

import struct
from typing import Any

from PIL import Image

_ORIENTATION = 0x0112
_SHORT, _LONG = 3, 4
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def turn(image: Image.Image) -> Image.Transpose | None:
    """Return what turns a loaded picture upright, or None where it is, or says nothing sound.

    To be called after loading: PNG may have its EXIF data behind the pixels, and
    newer Pillows turn TIFF and AVIF themselves and take the tag away.
    """
    data = image.info.get("exif")
    if data is None and "Raw profile type exif" in image.info:
        data = _from_hex(image.info["Raw profile type exif"])
    if data is not None:
        return TURNS.get(orientation(data))
    tags = getattr(image, "tag_v2", None)  # TIFF
    value = tags.get(_ORIENTATION) if tags is not None else None
    return TURNS.get(value) if isinstance(value, int) else None


def orientation(exif: Any) -> int:
    """Return the orientation, 1 to 8, that EXIF data gives; 1 where it gives none that is valid.

    Args:
        exif: the data, with or without its `Exif` mark.
    """
    if not isinstance(exif, bytes):
        return 1
    tiff = exif.removeprefix(b"Exif\0\0")
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(tiff[:4])
    if order is None:
        return 1
    try:
        (start,) = struct.unpack_from(order + "L", tiff, 4)
        (count,) = struct.unpack_from(order + "H", tiff, start)
        for entry in range(start + 2, start + 2 + 12 * count, 12):
            tag, kind, values = struct.unpack_from(order + "HHL", tiff, entry)
            if tag == _ORIENTATION and values == 1 and kind in (_SHORT, _LONG):
                code = "H" if kind == _SHORT else "L"
                (value,) = struct.unpack_from(order + code, tiff, entry + 8)
                return int(value) if 1 <= value <= 8 else 1
    except struct.error:  # cut: an offset or entry lies past its end
        return 1
    return 1


def _from_hex(text: Any) -> bytes | None:
    """Return EXIF data as ImageMagick writes it into PNG: three lines, then hexadecimal."""
    try:
        return bytes.fromhex("".join(str(text).split("\n")[3:]))
    except ValueError:
        return None
