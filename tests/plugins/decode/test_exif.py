import io

import numpy
import pytest
from PIL import Image, ImageOps, PngImagePlugin

from stoker_plugins.decode.exif import orientation
from tests.plugins.decode.helpers import decoded, encoded, exif, noise

# How an upright picture lies in the file, for each orientation.
STORED = {
    1: lambda upright: upright,
    2: lambda upright: upright[:, ::-1],
    3: lambda upright: upright[::-1, ::-1],
    4: lambda upright: upright[::-1],
    5: lambda upright: upright.transpose(1, 0, 2),
    6: lambda upright: numpy.rot90(upright, 1),
    7: lambda upright: numpy.rot90(upright, 2).transpose(1, 0, 2),
    8: lambda upright: numpy.rot90(upright, -1),
}
BAD = {
    "zero": exif(0),
    "nine": exif(9),
    "huge": exif(70000, kind=4),
    "two values": exif(6, count=2),
    "type": exif(6, kind=7),
    "cut": exif(6)[:15],
    "empty": b"",
    "mark alone": b"Exif\0\0",
    "noise": b"Exif\0\0" + bytes(range(40)),
    "far": b"II*\0\xff\xff\xff\xff",
}


@pytest.mark.parametrize("value", STORED)
@pytest.mark.parametrize("order", ["<", ">"])
def test_B10_exif_orientation(value: int, order: str) -> None:
    upright = noise()
    stored = numpy.ascontiguousarray(STORED[value](upright))
    assert (stored.shape == upright.shape) == (value < 5)
    for kind, options in (("PNG", {}), ("WEBP", {"lossless": True, "exact": True})):
        data = encoded(stored, kind, exif=exif(value, order), **options)
        assert numpy.array_equal(decoded(data), upright), kind


@pytest.mark.parametrize("value", STORED)
def test_B10_jpeg(value: int) -> None:
    upright = numpy.kron(noise(2, 3), numpy.ones((16, 16, 1), numpy.uint8))
    stored = numpy.ascontiguousarray(STORED[value](upright))
    data = encoded(stored, "JPEG", quality=98, subsampling=0, exif=b"Exif\0\0" + exif(value))
    found = decoded(data)
    assert found.shape == upright.shape
    assert numpy.abs(found.astype(int) - upright).mean() < 4


@pytest.mark.parametrize("value", STORED)
@pytest.mark.parametrize("compression", [None, "tiff_lzw"])
def test_B10_tiff_is_turned_once_whoever_does_it(value: int, compression: str | None) -> None:
    upright = noise()
    data = encoded(
        numpy.ascontiguousarray(STORED[value](upright)),
        "TIFF",
        tiffinfo={274: value},
        compression=compression,
    )
    assert numpy.array_equal(decoded(data), upright)


def test_B10_exif_as_hexadecimal_text() -> None:
    upright = noise()
    for text, expected in (
        (f"\nexif\n{len(exif(3)):8}\n{exif(3).hex()}\n", upright[::-1, ::-1]),
        ("\nexif\n 3\nnot hexadecimal", upright),
        ("short", upright),
    ):
        info = PngImagePlugin.PngInfo()
        info.add_text("Raw profile type exif", text)
        assert numpy.array_equal(decoded(encoded(upright, "PNG", pnginfo=info)), expected)


@pytest.mark.parametrize("bad", BAD)
def test_B10_bad_values_are_no_op(bad: str) -> None:
    assert orientation(BAD[bad]) == 1
    upright = noise()
    if BAD[bad]:
        data = encoded(upright, "WEBP", lossless=True, exact=True, exif=BAD[bad])
        assert numpy.array_equal(decoded(data), upright)


def test_a_long_serves_as_a_short() -> None:
    assert orientation(exif(6, ">", kind=4)) == 6
    assert orientation(b"Exif\0\0" + exif(6)) == 6
    assert orientation(None) == 1


def test_a_picture_turned_by_others_is_not_turned_again() -> None:
    upright = noise()
    data = encoded(numpy.ascontiguousarray(STORED[6](upright)), "PNG", exif=exif(6))
    turned = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    assert numpy.array_equal(decoded(turned), upright)
