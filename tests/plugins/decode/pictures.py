"""Files of every kind that decoders meet, made for tests."""

import base64
import io
import struct
import zlib
from typing import Any

import numpy
from numpy.typing import NDArray
from PIL import Image

from tests.plugins.decode.helpers import encoded, noise

# What `jpegtran -arithmetic` makes of `encoded(smooth(16, 24), "JPEG", quality=75)`.
ARITHMETIC = base64.b85decode(
    "|JeWF01!$>Nk#wx0RR9200961|JwjV00;&K2L=TQ2L}fU2?z=d6b%du3k(?&6Au&}8Xq1V8XO!TBrYc)A}k{u94I#_"
    "EHE)NG&CP4IXyTsJT5adGXL8ELjeg12@DGi7!3^=G9erxGBPqUGBPqUGBPqUGBPqUGBPqUGBPqUGBPqUGBPqUGBPqU"
    "GBPqUGBPqUGBPqUGBW?k01*fP5C9kh0U`hb5di}c0sqVZ3IGrg1pyEd1^?Or3<CiG0ucid06zf#0J5&ry|^KuDCNy9"
    "V;8f%c`Xo~9f`m}LwI;H|Je"
)


def smooth(height: int = 48, width: int = 64) -> NDArray[numpy.uint8]:
    """Return a picture (H, W, 3) that JPEG keeps nearly as it is."""
    ramp = numpy.linspace(0, 255, height * width * 3)
    return ramp.reshape(height, width, 3).astype(numpy.uint8)


def jpeg(array: Any = None, **options: Any) -> bytes:
    """Return a JPEG, by default of the smooth picture."""
    return encoded(smooth() if array is None else array, "JPEG", **options)


def with_segments(*segments: tuple[int, bytes], data: bytes | None = None) -> bytes:
    """Return a JPEG with segments (marker, content) put behind its start."""
    whole = jpeg() if data is None else data
    added = (
        bytes([255, mark]) + struct.pack(">H", len(body) + 2) + body for mark, body in segments
    )
    return whole[:2] + b"".join(added) + whole[2:]


def with_frame(marker: int = 0xC0, bits: int = 8) -> bytes:
    """Return a JPEG whose frame header says another process, or other bits a sample."""
    whole = jpeg()
    at = whole.index(b"\xff\xc0")
    return (
        whole[: at + 1] + bytes([marker]) + whole[at + 2 : at + 4] + bytes([bits]) + whole[at + 5 :]
    )


def animation(kind: str, **options: Any) -> bytes:
    """Return an animation, or several pages: `smooth`, then others."""
    frames = [Image.fromarray(smooth()), Image.fromarray(noise(48, 64))]
    if kind == "GIF":
        frames = [frame.convert("P", palette=Image.Palette.ADAPTIVE) for frame in frames]
    buffer = io.BytesIO()
    frames[0].save(buffer, kind, save_all=True, append_images=frames[1:], **options)
    return buffer.getvalue()


def png(width: int, height: int, bits: int, colour: int, rows: bytes) -> bytes:
    """Return a PNG of any kind (ISO/IEC 15948); `rows` each begin with their filter's byte."""
    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    whole = b"\x89PNG\r\n\x1a\n"
    for name, body in ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")):
        whole += struct.pack(">I", len(body)) + name + body
        whole += struct.pack(">I", zlib.crc32(name + body))
    return whole


DEEP_RGB = png(2, 1, 16, 2, struct.pack(">B6H", 0, 0, 0x1234, 0xFFFF, 0x80FF, 0x00FF, 0xFF00))


def exif_with_thumbnail(orientation: int) -> bytes:
    """Return EXIF data with an orientation and a JPEG of another picture as its thumbnail."""
    thumbnail = jpeg(noise(16, 16))
    first = struct.pack("<HHHLHxxL", 1, 0x0112, 3, 1, orientation, 26)
    second = struct.pack("<HHHLLHHLLL", 2, 0x0201, 4, 1, 56, 0x0202, 4, 1, len(thumbnail), 0)
    return b"Exif\0\0II*\0" + struct.pack("<L", 8) + first + second + thumbnail
