"""Pictures made for tests."""

import io
import struct
import zlib
from typing import Any

import numpy
from numpy.typing import NDArray
from PIL import Image

from stoker.stages import Stage, Surroundings
from stoker.testing import apply
from stoker_plugins.decode import Image as Decode


def encoded(array: Any, kind: str, **options: Any) -> bytes:
    """Return an array, or a picture, in one of Pillow's formats."""
    picture = array if isinstance(array, Image.Image) else Image.fromarray(array)
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def decoded(data: Any, **given: Any) -> NDArray[numpy.uint8]:
    """Return what the stage makes of encoded bytes."""
    image: NDArray[numpy.uint8] = apply(Decode(**given), {"jpg": data})["image"]
    assert image.dtype == numpy.uint8
    assert image.ndim == 3
    assert image.shape[2] == 3
    assert image.flags.c_contiguous
    assert image.flags.writeable
    return image


def noise(height: int = 5, width: int = 8, seed: int = 0) -> NDArray[numpy.uint8]:
    """Return a picture that no turn or flip maps onto itself."""
    return numpy.random.default_rng(seed).integers(0, 256, (height, width, 3), numpy.uint8)


def exif(orientation: int, order: str = "<", kind: int = 3, count: int = 1) -> bytes:
    """Return EXIF data that holds an orientation and nothing else."""
    value = struct.pack(order + ("H" if kind == 3 else "L"), orientation).ljust(4, b"\0")
    entry = struct.pack(order + "HHL", 0x0112, kind, count) + value
    mark = b"II*\0" if order == "<" else b"MM\0*"
    return mark + struct.pack(order + "LH", 8, 1) + entry + bytes(4)


def png_header(width: int, height: int) -> bytes:
    """Return a PNG of a size, without pixels."""
    data = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + data
    head = struct.pack(">I", len(data)) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return b"\x89PNG\r\n\x1a\n" + head + struct.pack(">I", 10) + b"IDAT"


def problems(stage: Stage) -> list[str]:
    """Return what the stage says when it is checked."""
    return list(stage.check(Surroundings((stage,), 0)))
