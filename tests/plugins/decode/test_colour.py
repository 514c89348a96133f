import io
import struct
import zlib
from typing import Any

import numpy
import pytest
from PIL import Image, ImageCms

from stoker.testing import apply
from stoker_plugins.decode import Image as Decode
from stoker_plugins.decode.colour import converted
from tests.plugins.decode.helpers import decoded, encoded, noise

RAMP = numpy.arange(65536, dtype=numpy.uint16).reshape(256, 256)
SCALED = numpy.rint(RAMP / 257).astype(numpy.uint8)


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "PGM"])
def test_B07_grey_of_16_bits_is_scaled(kind: str) -> None:
    pgm = b"P5 256 256 65535\n" + RAMP.astype(">u2").tobytes()
    found = decoded(pgm if kind == "PGM" else encoded(RAMP, kind))
    for channel in range(3):
        assert numpy.array_equal(found[:, :, channel], SCALED)
    flat = found[:, :, 0].ravel().astype(int)
    assert (numpy.diff(flat) >= 0).all()
    assert (flat[0], flat[-1]) == (0, 255)


def test_B07_big_endian_tiff() -> None:
    swapped = Image.frombytes("I;16B", (256, 256), RAMP.astype(">u2").tobytes())
    assert numpy.array_equal(decoded(encoded(swapped, "TIFF"))[:, :, 0], SCALED)


def test_B07_mode_I_of_older_pillows() -> None:
    picture = Image.fromarray(RAMP.astype(numpy.int32))
    picture.format = "PNG"
    assert picture.mode == "I"
    assert numpy.array_equal(numpy.asarray(converted(picture, "RGB", (0, 0, 0)))[:, :, 1], SCALED)


def test_B07_transparent_value_in_16_bits() -> None:
    grey = numpy.array([[0, 7, 65535]], numpy.uint16)
    found = decoded(encoded(grey, "PNG", transparency=7), background=(1, 2, 3))
    assert found.tolist() == [[[0, 0, 0], [1, 2, 3], [255, 255, 255]]]


@pytest.mark.parametrize("kind", [numpy.int32, numpy.float32])
def test_values_without_a_declared_range_are_refused(kind: Any) -> None:
    with pytest.raises(ValueError, match="no declared range"):
        decoded(encoded(numpy.ones((3, 3), kind), "TIFF"))


# -- CMYK ----------------------------------------------------------------------------

INKS = [(0, 0, 0, 0), (255, 0, 0, 0), (0, 200, 30, 0), (10, 60, 90, 120), (0, 0, 0, 255)]


def cmyk_jpeg(inks: tuple[int, ...], transform: int | None) -> bytes:
    """Return a CMYK JPEG with Adobe's marker saying `transform`, or without the marker."""
    data = encoded(Image.new("CMYK", (16, 16), inks), "JPEG", quality=100)
    at = data.index(b"\xff\xee")
    assert data[at + 4 : at + 9] == b"Adobe"
    if transform is None:
        return data[:at] + data[at + 2 + struct.unpack_from(">H", data, at + 2)[0] :]
    return data[: at + 15] + bytes([transform]) + data[at + 16 :]


def from_cmyk(inks: tuple[float, ...]) -> list[float]:
    return [(255 - ink) * (255 - inks[3]) / 255 for ink in inks[:3]]


@pytest.mark.parametrize("inks", INKS)
@pytest.mark.parametrize("transform", [0, None], ids=["adobe", "no marker"])
def test_B09_cmyk_is_right_with_the_marker_and_taken_as_such_without(
    inks: tuple[int, ...], transform: int | None
) -> None:
    found = decoded(cmyk_jpeg(inks, transform))
    assert numpy.abs(found - numpy.array(from_cmyk(inks))).max() <= 3


@pytest.mark.parametrize("inks", INKS)
def test_B09_ycck(inks: tuple[int, ...]) -> None:
    # What the file holds, read as luma, two chromas and black, all inverted.
    luma, blue, red = (255 - ink for ink in inks[:3])
    rgb = numpy.array(
        [
            luma + 1.402 * (red - 128),
            luma - 0.344136 * (blue - 128) - 0.714136 * (red - 128),
            luma + 1.772 * (blue - 128),
        ]
    ).clip(0, 255)
    expected = from_cmyk((*rgb, inks[3]))
    found = decoded(cmyk_jpeg(inks, 2))
    assert numpy.abs(found - numpy.array(expected)).max() <= 4


def test_B09_the_conversion_can_be_counted() -> None:
    sample = apply(Decode(), {"jpg": cmyk_jpeg(INKS[1], 0)})
    assert sample["__mode__"] == "CMYK"
    assert "__mode__" not in apply(Decode(), {"jpg": encoded(noise(), "JPEG")})


# -- transparency ----------------------------------------------------------------------

BACK = (10, 20, 30)


def over(colour: tuple[int, int, int], alpha: int) -> list[float]:
    return [
        (one * alpha + back * (255 - alpha)) / 255 for one, back in zip(colour, BACK, strict=True)
    ]


@pytest.mark.parametrize("alpha", [0, 77, 255])
@pytest.mark.parametrize(
    ("mode", "colour"), [("RGBA", (200, 100, 50)), ("LA", (90, 90, 90)), ("PA", (200, 100, 50))]
)
def test_alpha_is_laid_over_the_background(
    mode: str, colour: tuple[int, int, int], alpha: int
) -> None:
    if mode == "PA":  # no common format stores it
        picture = Image.new("PA", (3, 2), (1, alpha))
        picture.putpalette([0, 0, 0, *colour])
    else:
        picture = Image.new("RGBA", (3, 2), (*colour, alpha)).convert(mode)
    assert picture.mode == mode
    found = decoded(picture if mode == "PA" else encoded(picture, "PNG"), background=BACK)
    assert found.shape == (2, 3, 3)
    assert numpy.abs(found - numpy.array(over(colour, alpha))).max() <= 1
    if alpha == 0:
        assert (found == BACK).all()


@pytest.mark.parametrize("mode", ["La", "RGBa"])
def test_premultiplied_alpha(mode: str) -> None:
    picture = Image.new(mode.upper(), (2, 2), (80, 128) if mode == "La" else (80, 80, 80, 128))
    found = decoded(picture.convert(mode), background=BACK)
    assert numpy.abs(found - numpy.array(over((80, 80, 80), 128))).max() <= 2


def paletted() -> Image.Image:
    picture = Image.new("P", (3, 1))
    picture.putpalette([255, 0, 0, 0, 255, 0, 0, 0, 255])
    for column in range(3):
        picture.putpixel((column, 0), column)
    return picture


def test_palettes() -> None:
    plain = [[[255, 0, 0], [0, 255, 0], [0, 0, 255]]]
    for kind in ("PNG", "GIF", "BMP"):
        assert decoded(encoded(paletted(), kind)).tolist() == plain
    for kind in ("PNG", "GIF"):
        found = decoded(encoded(paletted(), kind, transparency=1), background=BACK)
        assert found.tolist() == [[[255, 0, 0], list(BACK), [0, 0, 255]]]
    partly = encoded(paletted(), "PNG", transparency=bytes([255, 0, 128]))
    found = decoded(partly, background=BACK)
    assert found[0, :2].tolist() == [[255, 0, 0], list(BACK)]
    assert numpy.abs(found[0, 2] - numpy.array(over((0, 0, 255), 128))).max() <= 1


def test_one_transparent_colour() -> None:
    grey = numpy.array([[0, 7, 255]], numpy.uint8)
    found = decoded(encoded(grey, "PNG", transparency=7), background=BACK)
    assert found.tolist() == [[[0] * 3, list(BACK), [255] * 3]]
    colours = numpy.array([[[1, 2, 3], [4, 5, 6]]], numpy.uint8)
    found = decoded(encoded(colours, "PNG", transparency=(4, 5, 6)), background=BACK)
    assert found.tolist() == [[[1, 2, 3], list(BACK)]]


def test_bits_and_grey() -> None:
    bits = Image.frombytes("1", (8, 1), b"\xaa")
    white = [255 * (1 - column % 2) for column in range(8)]
    assert decoded(encoded(bits, "PNG"))[0, :, 0].tolist() == white
    grey = noise()[:, :, 0]
    assert numpy.array_equal(decoded(encoded(grey, "PNG")), numpy.dstack([grey] * 3))


@pytest.mark.parametrize("mode", ["YCbCr", "HSV", "LAB"])
def test_other_colour_spaces(mode: str) -> None:
    grey = Image.new("RGB", (4, 4), (128, 128, 128))
    if mode == "LAB":
        srgb, lab = ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB")
        converted = ImageCms.profileToProfile(grey, srgb, lab, outputMode="LAB")
        assert converted is not None
    else:
        converted = grey.convert(mode)
    found = decoded(encoded(converted, "TIFF") if mode == "LAB" else converted)
    assert numpy.abs(found.astype(int) - 128).max() <= 2


def test_16_bits_a_channel_keep_the_high_byte() -> None:
    row = struct.pack(">6H", 0, 0x1234, 0xFFFF, 0x80FF, 0x00FF, 0xFF00)
    header = struct.pack(">IIBBBBB", 2, 1, 16, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n"
    for name, data in ((b"IHDR", header), (b"IDAT", zlib.compress(b"\0" + row)), (b"IEND", b"")):
        png += struct.pack(">I", len(data)) + name + data
        png += struct.pack(">I", zlib.crc32(name + data))
    assert decoded(png).tolist() == [[[0, 0x12, 0xFF], [0x80, 0, 0xFF]]]


def test_an_animation_gives_its_first_frame() -> None:
    frames = [Image.new("RGB", (4, 3), colour) for colour in ((255, 0, 0), (0, 255, 0))]
    for kind, options in (("GIF", {}), ("WEBP", {"lossless": True}), ("PNG", {}), ("TIFF", {})):
        buffer = io.BytesIO()
        frames[0].save(buffer, kind, save_all=True, append_images=frames[1:], **options)
        found = decoded(buffer.getvalue())
        assert (found == (255, 0, 0)).all(), kind
