"""Pictures opened by their content, with this process's limits left as they are.

`PIL.Image.open` warns and refuses by a limit that all of the process shares. Here
the same format drivers are asked directly, so that each stage has a limit of its own.
"""

from __future__ import annotations

import io
import struct
from typing import IO

from PIL import Image, ImageFile, JpegImagePlugin

_JPEG = b"\xff\xd8\xff"
# Its driver starts Ghostscript, and a picture must not start programs.
_REFUSED = {"EPS"}
# Their drivers ask Pillow's own limit again while they load.
_LIMITED_BY_PILLOW = {"TIFF"}
_NOT_THIS_FORMAT = (SyntaxError, IndexError, TypeError, struct.error)


class _Jpeg(JpegImagePlugin.JpegImageFile):
    """JPEG whose EXIF data Pillow leaves alone: it warns about bad data, in search of a dpi."""

    def _read_dpi_from_exif(self) -> None:
        pass


def open_picture(data: bytes, max_pixels: int) -> ImageFile.ImageFile:
    """Return the picture in `data`, its header read and its pixels not.

    Raises:
        ValueError: nothing is in it, no known picture, or one past the limit.
    """
    if not data:
        raise ValueError("empty file: 0 bytes where a picture should be")
    image = _identify(data)
    if image is None:
        raise ValueError(f"no picture that Pillow knows: {_what(data)}")
    width, height = image.size
    limit, whose = max_pixels, f"max_pixels={max_pixels}"
    if image.format in _LIMITED_BY_PILLOW and (Image.MAX_IMAGE_PIXELS or limit) < limit:
        limit = Image.MAX_IMAGE_PIXELS or limit
        whose = f"{limit}, Pillow's own for {image.format} (PIL.Image.MAX_IMAGE_PIXELS)"
    if width * height > limit:
        raise ValueError(
            f"{width} x {height} = {width * height} pixels; the limit is {whose}: raise it "
            "if such pictures are meant"
        )
    return image


def _identify(data: bytes) -> ImageFile.ImageFile | None:
    file = io.BytesIO(data)
    if data.startswith(_JPEG):
        # Not through its registered opener, which looks for further pictures behind the first.
        try:
            return _Jpeg(file)
        except _NOT_THIS_FORMAT:
            return None
    tried: set[str] = set()
    for learn in (Image.preinit, Image.init):  # the common drivers, then all of them
        learn()
        for name in [name for name in Image.ID if name not in tried]:
            tried.add(name)
            image = _try(name, file, data[:16])
            if image is not None:
                return image
    return None


def _try(name: str, file: IO[bytes], head: bytes) -> ImageFile.ImageFile | None:
    factory, accept = Image.OPEN[name]
    try:
        accepts = accept is None or accept(head)
        if not accepts or isinstance(accepts, str):  # a text says that support was not built in
            return None
        if name in _REFUSED:
            raise ValueError(f"a picture in {name}, whose decoder would run another program")
        file.seek(0)
        return factory(file, "")
    except _NOT_THIS_FORMAT:
        return None


def _what(data: bytes) -> str:
    """Say what bytes that are no picture look like."""
    head = data[:256].lstrip().lower()
    if head.startswith((b"<!doctype html", b"<html")):
        looks = "an HTML page"
    elif head.startswith((b"<?xml", b"<svg")):
        looks = "XML or SVG"
    elif head.startswith((b"{", b"[")):
        looks = "JSON"
    elif head.startswith(b"version https://git-lfs"):
        looks = "a Git LFS pointer"
    else:
        looks = "unknown content"
    return f"it looks like {looks}, {len(data)} bytes beginning with {data[:24]!r}"
