"""Pictures opened by their content, with this process's limits left as they are.

`PIL.Image.open` warns and refuses by a limit that all of the process shares. Here
the same format drivers are asked directly, so that each stage has a limit of its own.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator

from PIL import Image, ImageFile, JpegImagePlugin

from stoker.errors import reason_of

_JPEG = b"\xff\xd8\xff"
# Its driver starts Ghostscript, and a picture must not start programs.
_REFUSED = {"EPS"}
# Their drivers ask Pillow's own limit again while they load.
_LIMITED_BY_PILLOW = {"TIFF"}
# ICO and ICNS hold other pictures, which their drivers decode at once.
_HOLD_PNG = (b"\0\0\1\0", b"icns")
_END = b"\xff\xd9"


class _Jpeg(JpegImagePlugin.JpegImageFile):
    """JPEG that is read alike whatever this process's settings are.

    Pillow warns about bad EXIF data, in search of a dpi; and what it does with a file that
    ends early depends on a switch for the whole process.
    """

    fill = False
    ended_early = False

    def _read_dpi_from_exif(self) -> None:
        pass

    def load_read(self, read_bytes: int) -> bytes:
        """Return more of the file; once its end, where it ends early and that is allowed."""
        data: bytes = self.fp.read(read_bytes)  # type: ignore[union-attr]
        if data:
            return data
        if not self.fill or self.ended_early:
            raise OSError("image file is truncated: it ends before its end mark")
        # So libjpeg also gives the rows that it holds, and of a progressive file all its scans.
        self.ended_early = True
        return _END


def open_picture(data: bytes, max_pixels: int, fill: bool = False) -> ImageFile.ImageFile:
    """Return the picture in `data`, its header read and its pixels not.

    Args:
        data: the file.
        max_pixels: of its width times its height.
        fill: of a file that ends early give what there is.

    Raises:
        ValueError: nothing is in it, no known picture, or one past the limit.
    """
    if not data:
        raise ValueError("empty file: 0 bytes where a picture should be")
    limit = f"max_pixels={max_pixels}"
    if data.startswith(_HOLD_PNG):
        for size in _held(data):
            _check_size(size, max_pixels, limit)
    image = _jpeg(data, fill) if data.startswith(_JPEG) else _identify(data)
    pillows = Image.MAX_IMAGE_PIXELS or max_pixels
    if image.format in _LIMITED_BY_PILLOW and pillows < max_pixels:
        max_pixels = pillows
        limit = f"{pillows}, Pillow's own for {image.format} (PIL.Image.MAX_IMAGE_PIXELS)"
    _check_size(image.size, max_pixels, limit)
    return image


def _check_size(size: tuple[int, int], most: int, limit: str) -> None:
    width, height = size
    if width * height > most:
        raise ValueError(
            f"{width} x {height} = {width * height} pixels; the limit is {limit}: raise it "
            "if such pictures are meant"
        )


def _jpeg(data: bytes, fill: bool) -> ImageFile.ImageFile:
    # Not through its registered opener, which looks for further pictures behind the first.
    try:
        image = _Jpeg(io.BytesIO(data))
    except MemoryError:
        raise
    except Exception as error:
        raise ValueError(_refusal("JPEG", error, data)) from error
    image.fill = fill
    return image


def _identify(data: bytes) -> ImageFile.ImageFile:
    """Return the picture as the first driver that can reads it."""
    file = io.BytesIO(data)
    tried: set[str] = set()
    refusal = None
    for learn in (Image.preinit, Image.init):  # the common drivers, then all of them
        learn()
        for name in [name for name in Image.ID if name not in tried]:
            tried.add(name)
            accepted = _accepts(name, data[:16])
            if accepted and name in _REFUSED:
                raise ValueError(f"a picture in {name}, whose decoder would run another program")
            if accepted is False:
                continue
            try:
                file.seek(0)
                return Image.OPEN[name][0](file, "")
            except MemoryError:
                raise
            except Exception as error:  # each driver has errors of its own
                if accepted and refusal is None:
                    refusal = _refusal(name, error, data)
    raise ValueError(refusal or f"no picture that Pillow knows: {_what(data)}")


def _accepts(name: str, head: bytes) -> bool | None:
    """Return whether a driver takes a file for its own by its first bytes; None: it cannot say."""
    accept = Image.OPEN[name][1]
    if accept is None:
        return None
    try:
        accepted = accept(head)
    except (IndexError, struct.error):  # the file is shorter than what it looks at
        return False
    # A text says that support was not built in.
    return bool(accepted) and not isinstance(accepted, str)


def said_by(error: Exception) -> str:
    """Return a library's words on what is wrong, with the error's type where they are no sentence.

    Args:
        error: such as KeyError, whose words are a key.
    """
    text = str(error)
    if isinstance(error, Image.DecompressionBombError):
        return f"{text.rstrip('.')} (Pillow's own limit: PIL.Image.MAX_IMAGE_PIXELS)"
    return text if " " in text else reason_of(error)


def _refusal(name: str, error: Exception, data: bytes) -> str:
    """Say what is wrong with what begins like a picture and cannot be opened."""
    reason = said_by(error)
    # Pillow makes a SyntaxError of what `struct` says of too few bytes.
    if "unpack" in reason or "truncated" in reason.lower():
        reason = f"it ends inside its header ({reason})"
    return (
        f"damaged {name}, or a kind of it that Pillow does not read: {reason}; "
        f"{len(data)} bytes beginning with {data[:24]!r}"
    )


def _held(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield (width, height) in px of the PNG pictures that a file holds."""
    at = data.find(b"IHDR")
    while 0 <= at <= len(data) - 12:
        yield struct.unpack_from(">LL", data, at + 4)
        at = data.find(b"IHDR", at + 4)


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
