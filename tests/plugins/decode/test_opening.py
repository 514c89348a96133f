import io
import warnings

import PIL.Image
import pytest

from stoker.testing import apply
from stoker_plugins.decode import Image
from stoker_plugins.decode.opening import open_picture, said_by
from tests.plugins.decode.helpers import encoded, noise, png_header

DEFAULT = 178_956_970


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "ICO"])
def test_the_format_is_told_by_content(kind: str) -> None:
    picture = open_picture(encoded(noise(16, 16), kind), DEFAULT)
    assert (picture.format, picture.size) == (kind, (16, 16))


def test_S4_a_picture_past_the_limit_is_refused_before_its_pixels() -> None:
    with pytest.raises(ValueError, match=r"20000 x 20000 = 400000000 pixels.*max_pixels=178956970"):
        open_picture(png_header(20000, 20000), DEFAULT)
    with pytest.raises(ValueError, match="max_pixels=39"):
        open_picture(encoded(noise(5, 8), "JPEG"), 39)
    assert open_picture(encoded(noise(5, 8), "JPEG"), 40).size == (8, 5)


def test_S4_the_limit_is_each_callers_own() -> None:
    before = PIL.Image.MAX_IMAGE_PIXELS
    assert open_picture(png_header(20000, 20000), 10**9).size == (20000, 20000)
    assert before == PIL.Image.MAX_IMAGE_PIXELS


def test_S4_pillows_warning_does_not_leak() -> None:
    header = png_header(10000, 10000)
    with pytest.warns(PIL.Image.DecompressionBombWarning):
        PIL.Image.open(io.BytesIO(header))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_picture(header, DEFAULT).size == (10000, 10000)


def test_S4_where_pillow_asks_its_own_limit_that_one_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 39)
    tiff = encoded(noise(5, 8), "TIFF")
    with pytest.raises(ValueError, match=r"39, Pillow's own for TIFF \(PIL.Image.MAX_IMAGE_PIX"):
        open_picture(tiff, 1000)
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", None)
    assert open_picture(tiff, 1000).size == (8, 5)


def test_S4_a_limit_inside_a_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 10)
    with pytest.raises(ValueError, match=r"damaged ICO.*256 pixels.*PIL\.Image\.MAX_IMAGE_PIXELS"):
        apply(Image(), {"ico": encoded(noise(16, 16), "ICO")})


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (KeyError(258), "KeyError: 258"),
        (SyntaxError("cannot handle 12-bit layers"), "cannot handle 12-bit layers"),
        (EOFError(), "EOFError"),
    ],
)
def test_libraries_words_stay_understandable(error: Exception, says: str) -> None:
    assert said_by(error) == says


@pytest.mark.parametrize(
    ("data", "looks"),
    [
        (b"\n<!DOCTYPE html><html>", "an HTML page"),
        (b"<html><body>404", "an HTML page"),
        (b"<?xml version='1.0'?><svg>", "XML or SVG"),
        (b'{"error": "gone"}', "JSON"),
        (b"version https://git-lfs.github.com/spec/v1", "a Git LFS pointer"),
        (b"\x00\x01\x02\x03", "unknown content"),
        (b"\xff\xd8\xff", "damaged JPEG"),
        (b"\x89PNG\r\n\x1a\n", "damaged PNG"),
    ],
)
def test_B12_what_is_no_picture_is_described(data: bytes, looks: str) -> None:
    with pytest.raises(ValueError) as error:
        open_picture(data, DEFAULT)
    assert looks in str(error.value)
    assert f"{len(data)} bytes beginning with" in str(error.value)


def test_B12_empty_file() -> None:
    with pytest.raises(ValueError, match="empty file"):
        open_picture(b"", DEFAULT)


def test_no_picture_starts_a_program() -> None:
    with pytest.raises(ValueError, match="EPS, whose decoder would run another program"):
        open_picture(encoded(noise(), "EPS"), DEFAULT)
