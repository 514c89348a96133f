"""One table of formats, and both decoders: what right looks like for each, by arithmetic."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy
import PIL.ImageFile
import pytest
from numpy.typing import NDArray
from PIL import Image as Picture

from stoker import Pipeline, Quarantine
from stoker.errors import SampleError
from stoker.region import Request
from stoker.sample import Sample
from stoker.testing import apply
from stoker_plugins import collate, read
from stoker_plugins.augment import Resize
from stoker_plugins.decode import Image, Jpeg
from tests.plugins.decode.helpers import encoded, noise, png_header, problems
from tests.plugins.decode.pictures import (
    ARITHMETIC,
    DEEP_RGB,
    animation,
    exif_with_thumbnail,
    jpeg,
    smooth,
    with_frame,
    with_segments,
)
from tests.plugins.decode.test_colour import RAMP, SCALED, cmyk_jpeg, paletted

BACK = (10, 20, 30)
GREY = smooth()[:, :, 0]
STAGES = pytest.mark.parametrize("stage", [Image, Jpeg])


def made(stage: type[Image], data: Any, **given: Any) -> Sample:
    sample: Sample = apply(stage(background=BACK, **given), {"jpg": data})
    assert sample["image"].flags.c_contiguous
    assert sample["image"].flags.writeable
    return sample


def rgb(grey: Any) -> NDArray[Any]:
    return numpy.repeat(numpy.asarray(grey)[:, :, None], 3, axis=2)


def over(rgba: Any) -> NDArray[Any]:
    colour, alpha = numpy.asarray(rgba, float)[..., :3], numpy.asarray(rgba, float)[..., 3:] / 255
    return colour * alpha + numpy.array(BACK) * (1 - alpha)


ALPHA = numpy.dstack([noise(20, 30), numpy.arange(600).reshape(20, 30) % 256]).astype(numpy.uint8)
LA = Picture.fromarray(ALPHA).convert("LA")
BITS = Picture.fromarray(GREY).convert("1")
SWAPPED = Picture.frombytes("I;16B", (256, 256), RAMP.astype(">u2").tobytes())
PALETTE = [[[255, 0, 0], [0, 255, 0], [0, 0, 255]]]
PROFILE = [(0xE2, b"ICC_PROFILE\0" + bytes([n + 1, 140]) + bytes(65000)) for n in range(140)]
GARBAGE = noise().tobytes()

# name: file, its RGB pixels over BACK, how far they may be off, what __mode__ notes
FORMATS: dict[str, tuple[bytes, Any, float, str | None]] = {
    "png rgb": (encoded(noise(), "PNG"), noise(), 0, None),
    "png grey": (encoded(GREY, "PNG"), rgb(GREY), 0, "L"),
    "png 1 bit": (encoded(BITS, "PNG"), rgb(numpy.asarray(BITS) * 255), 0, "1"),
    "tiff 1 bit": (encoded(BITS, "TIFF"), rgb(numpy.asarray(BITS) * 255), 0, "1"),
    "png 16-bit grey": (encoded(RAMP, "PNG"), rgb(SCALED), 0, "I;16"),
    "tiff 16-bit grey": (encoded(RAMP, "TIFF"), rgb(SCALED), 0, "I;16"),
    "tiff 16-bit grey big-endian": (encoded(SWAPPED, "TIFF"), rgb(SCALED), 0, "I;16B"),
    "png 16-bit rgb": (DEEP_RGB, [[[0, 0x12, 0xFF], [0x80, 0, 0xFF]]], 0, None),
    "png rgba": (encoded(ALPHA, "PNG"), over(ALPHA), 1, "RGBA"),
    "webp rgba": (encoded(ALPHA, "WEBP", lossless=True, exact=True), over(ALPHA), 1, "RGBA"),
    "tiff rgba": (encoded(ALPHA, "TIFF"), over(ALPHA), 1, "RGBA"),
    "png la": (encoded(LA, "PNG"), over(numpy.asarray(LA.convert("RGBA"))), 1, "LA"),
    "png palette": (encoded(paletted(), "PNG"), PALETTE, 0, "P"),
    "png palette, an index clear": (
        encoded(paletted(), "PNG", transparency=1),
        [[[255, 0, 0], list(BACK), [0, 0, 255]]],
        0,
        "P",
    ),
    "png palette with alpha": (
        encoded(paletted(), "PNG", transparency=bytes([255, 0, 128])),
        over([[[255, 0, 0, 255], [0, 255, 0, 0], [0, 0, 255, 128]]]),
        1,
        "P",
    ),
    "png rgb, a colour clear": (
        encoded(numpy.array([[[1, 2, 3], [4, 5, 6]]], numpy.uint8), "PNG", transparency=(4, 5, 6)),
        [[[1, 2, 3], list(BACK)]],
        0,
        None,
    ),
    "png 16-bit grey, a value clear": (
        encoded(numpy.array([[0, 7, 65535]], numpy.uint16), "PNG", transparency=7),
        [[[0] * 3, list(BACK), [255] * 3]],
        0,
        "I;16",
    ),
    "gif": (encoded(paletted(), "GIF"), PALETTE, 0, "P"),
    "gif animated": (animation("GIF"), smooth(), 12, "P"),
    "webp animated": (animation("WEBP", lossless=True), smooth(), 0, None),
    "apng": (animation("PNG"), smooth(), 0, None),
    "tiff pages": (animation("TIFF"), smooth(), 0, None),
    "mpo": (animation("MPO", quality=95), smooth(), 8, None),
    "jpeg": (jpeg(quality=95), smooth(), 8, None),
    "jpeg progressive": (jpeg(quality=95, progressive=True), smooth(), 8, None),
    "jpeg arithmetic": (ARITHMETIC, smooth(16, 24), 40, None),
    "jpeg grey": (jpeg(GREY, quality=95), rgb(GREY), 8, "L"),
    "jpeg rgb": (jpeg(quality=95, keep_rgb=True), smooth(), 16, None),
    "jpeg 4:4:4": (jpeg(quality=95, subsampling="4:4:4"), smooth(), 8, None),
    "jpeg 4:2:2": (jpeg(quality=95, subsampling="4:2:2"), smooth(), 8, None),
    "jpeg 4:2:0": (jpeg(quality=95, subsampling="4:2:0"), smooth(), 8, None),
    "jpeg 4:1:1": (jpeg(quality=95, subsampling="4:1:1"), smooth(), 8, None),
    "jpeg with garbage behind": (jpeg(quality=95) + GARBAGE, smooth(), 8, None),
    "jpeg with zeros behind": (jpeg(quality=95) + bytes(5000), smooth(), 8, None),
    "png with garbage behind": (encoded(noise(), "PNG") + GARBAGE, noise(), 0, None),
    "jpeg with 9 MB of profile": (with_segments(*PROFILE), smooth(), 12, None),
    "jpeg with a broken profile": (
        with_segments((0xE2, b"ICC_PROFILE\0\1\0")),
        smooth(),
        12,
        None,
    ),
    "jpeg with a thumbnail, turned": (
        jpeg(quality=95, exif=exif_with_thumbnail(3)),
        smooth()[::-1, ::-1],
        8,
        None,
    ),
}


@STAGES
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_its_pixels(name: str, stage: type[Image]) -> None:
    """Upright RGB over the background, and a note of the mode that it was stored in."""
    data, pixels, tolerance, mode = FORMATS[name]
    pixels = numpy.asarray(pixels, float)
    sample = made(stage, data)
    assert sample["image"].dtype == numpy.uint8
    assert sample["image"].shape == pixels.shape
    assert numpy.abs(sample["image"] - pixels).max() <= tolerance
    noted = sample.get("__mode__")
    # Older Pillows have other names for 16 bits.
    assert noted == mode or {noted, mode} <= {"I;16", "I;16B", "I"}
    assert "__truncated__" not in sample
    grey = made(stage, data, mode="L")["image"]
    assert grey.shape == (*pixels.shape[:2], 1)
    assert numpy.abs(grey[:, :, 0] - pixels @ (0.299, 0.587, 0.114)).max() <= tolerance + 1
    rgba = made(stage, data, mode="RGBA")["image"]
    assert rgba.shape == (*pixels.shape[:2], 4)
    assert numpy.abs(over(rgba) - pixels).max() <= tolerance + 1


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "stored"])
def test_both_decoders_give_the_same(name: str, mode: Any) -> None:
    """Bit for bit, JPEG too, since both have libjpeg-turbo behind them."""
    data = FORMATS[name][0]
    if mode == "stored" and data is DEEP_RGB:
        for stage in (Image, Jpeg):
            with pytest.raises(ValueError, match="16 bits, of which Pillow keeps 8"):
                made(stage, data, mode=mode)
        return
    slow, fast = (made(stage, data, mode=mode) for stage in (Image, Jpeg))
    assert numpy.array_equal(slow.pop("image"), fast.pop("image"))
    assert slow == fast


@STAGES
def test_what_is_stored_is_kept_on_request(stage: type[Image]) -> None:
    floats = numpy.linspace(-1, 1e6, 12, dtype=numpy.float32).reshape(3, 4)
    whole = numpy.arange(-6, 6, dtype=numpy.int32).reshape(3, 4) * 100_000
    for array, file in (
        (RAMP, encoded(RAMP, "PNG")),
        (RAMP, encoded(RAMP, "TIFF")),
        (RAMP, encoded(SWAPPED, "TIFF")),
        (floats, encoded(floats, "TIFF")),
        (whole, encoded(whole, "TIFF")),
        (ALPHA, encoded(ALPHA, "PNG")),
        (numpy.asarray(LA), encoded(LA, "PNG")),
        (numpy.array([[0, 1, 2]], numpy.uint8), encoded(paletted(), "PNG")),
    ):
        found = made(stage, file, mode="stored")["image"]
        assert found.dtype == array.dtype
        assert numpy.array_equal(found, array if array.ndim == 3 else array[:, :, None])


@STAGES
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L"])
def test_32_bits_are_refused_with_what_to_do(stage: type[Image], mode: Any) -> None:
    for kind in (numpy.int32, numpy.float32):
        with pytest.raises(ValueError, match='no declared range .* keep it with mode="stored"'):
            made(stage, encoded(numpy.ones((3, 3), kind), "TIFF"), mode=mode)


@STAGES
@pytest.mark.parametrize("height", [1, 2, 7, 9, 31])
@pytest.mark.parametrize("width", [1, 2, 16, 23, 61])
def test_odd_sizes(stage: type[Image], height: int, width: int) -> None:
    array = smooth(height, width)
    assert numpy.array_equal(made(stage, encoded(array, "PNG"))["image"], array)
    for subsampling in ("4:4:4", "4:2:2", "4:2:0", "4:1:1"):
        data = jpeg(array, subsampling=subsampling)
        found = made(stage, data)["image"]
        assert found.shape == array.shape
        assert numpy.array_equal(found, made(Image, data)["image"])


# -- the cases -------------------------------------------------------------------------


@STAGES
@pytest.mark.parametrize("kind", ["PNG", "TIFF", "big-endian TIFF"])
def test_B07_every_level_of_a_16_bit_ramp_is_as_wide(stage: type[Image], kind: str) -> None:
    data = encoded(SWAPPED, "TIFF") if kind == "big-endian TIFF" else encoded(RAMP, kind)
    flat = made(stage, data)["image"][:, :, 0].ravel().astype(int)
    assert (flat[0], flat[-1]) == (0, 255)
    assert set(numpy.diff(flat)) == {0, 1}
    assert set(numpy.bincount(flat)[1:-1]) == {257}


@STAGES
@pytest.mark.parametrize("transform", [0, None, 2], ids=["adobe", "no marker", "ycck"])
def test_B09_four_inks_are_rgb(stage: type[Image], transform: int | None) -> None:
    """Without ink it is the paper, with all of black it is black, whatever the marker says."""
    for black, level in ((0, 255), (255, 0)):
        # Of YCCK the file holds luma, which without ink is none, and chroma in its middle.
        inks = (255, 127, 127, black) if transform == 2 else (0, 0, 0, black)
        sample = made(stage, cmyk_jpeg(inks, transform))
        assert sample["image"].shape == (16, 16, 3)
        assert numpy.abs(sample["image"].astype(int) - level).max() <= 3
        assert sample["__mode__"] == "CMYK"


@STAGES
def test_B12_content_decides_and_the_rest_is_refused_counted_and_named(
    stage: type[Image], tmp_path: Path
) -> None:
    files = {
        "a.png": b"",
        "b.jpg": b"<!DOCTYPE html><html>404</html>",
        "c.jpg": encoded(noise(), "PNG"),
        "d.png": encoded(noise(), "JPEG"),
        "e.gif": encoded(noise(), "BMP"),
        "f.webp": encoded(noise(), "TIFF"),
    }
    (tmp_path / "all").mkdir()
    for name, data in files.items():
        (tmp_path / "all" / name).write_bytes(data)
    stages = read.Files(str(tmp_path)), stage(), collate.Stack(4)
    with Pipeline("b12", *stages, on_error=Quarantine(2)) as loader:
        (batch,) = loader
        records = sorted(loader.failures.records, key=lambda record: str(record["key"]))
    assert batch["image"].shape == (4, 5, 8, 3)
    assert loader.ledger.quarantined == 2
    assert [record["key"] for record in records] == ["all/a", "all/b"]
    assert "empty file" in records[0]["error"]
    assert "looks like an HTML page" in records[1]["error"]


@STAGES
def test_S4_the_limit_can_be_set_and_the_error_names_it_and_the_sample(
    stage: type[Image], tmp_path: Path
) -> None:
    (tmp_path / "all").mkdir()
    (tmp_path / "all/bomb.png").write_bytes(png_header(30000, 30000))
    with (
        Pipeline("s4", read.Files(str(tmp_path)), stage(), collate.Stack(1)) as loader,
        pytest.raises(SampleError, match=r"all/bomb.*900000000 pixels; the limit is max_pixels=17"),
    ):
        list(loader)
    for kind in ("JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP"):
        data = encoded(noise(5, 8), kind)
        assert made(stage, data, max_pixels=40)["image"].shape == (5, 8, 3)
        with pytest.raises(ValueError, match="8 x 5 = 40 pixels; the limit is max_pixels=39"):
            made(stage, data, max_pixels=39)


@STAGES
def test_S4_a_picture_inside_another_format_is_measured(stage: type[Image]) -> None:
    """ICO says 16 x 16 of what it holds, and its driver decodes that before anybody can look."""
    small = encoded(noise(16, 16), "ICO")
    assert made(stage, small, max_pixels=256)["image"].shape == (16, 16, 3)
    at = small.index(b"IHDR")
    bomb = small[: at - 12] + png_header(12000, 12000)[:33] + small[at + 21 :]
    with pytest.raises(ValueError, match="12000 x 12000 = 144000000 pixels; .*max_pixels=1000"):
        made(stage, bomb, max_pixels=1000)


@STAGES
@pytest.mark.parametrize("scale", [1, 2, 4, 8])
@pytest.mark.parametrize(("height", "width"), [(384, 512), (389, 523), (401, 517)])
def test_S5_a_spot_stays_where_it_is_at_every_scale(
    stage: type[Image], scale: int, height: int, width: int
) -> None:
    """The centre of a round spot, through decoding at 1/scale and resizing, against arithmetic."""
    rows, columns = numpy.mgrid[:height, :width] + 0.5
    spot = numpy.exp(-((rows - 0.4 * height) ** 2 + (columns - 0.6 * width) ** 2) / 3200)
    spot = (255 * spot).round()
    crop = Resize(384 // (2 * scale) if scale > 1 else 320)
    decoder = stage(request=Request(crop, crop.name, "image"))
    sample = apply(decoder, {"jpg": jpeg(rgb(spot.astype(numpy.uint8)), quality=95)})
    assert sample["image"].shape[0] == -(-height // (scale if stage is Jpeg else 1))
    found = apply(crop, sample)["image"][:, :, 0].astype(float)
    for axis in (0, 1):
        assert centre(found, axis) == pytest.approx(centre(spot, axis), abs=0.0004)


def centre(picture: NDArray[Any], axis: int) -> float:
    """Return where a picture's weight lies along an axis, from 0 to 1."""
    weights = picture.sum(1 - axis)
    return float((numpy.arange(len(weights)) + 0.5) @ weights / weights.sum() / len(weights))


# -- files that end early ----------------------------------------------------------------

CUT = {
    "jpeg": jpeg(noise(64, 64)),
    "progressive": jpeg(noise(64, 64), progressive=True),
    "grey": jpeg(noise(64, 64)[:, :, 0]),
    "cmyk": jpeg(Picture.fromarray(noise(64, 64)).convert("CMYK")),
    "png": encoded(noise(64, 64), "PNG"),
    "gif": encoded(noise(64, 64), "GIF"),
    "webp": encoded(noise(64, 64), "WEBP"),
    "tiff": encoded(noise(64, 64), "TIFF"),
    "bmp": encoded(noise(64, 64), "BMP"),
}
# The first tenth where the header is whole; before it there is nothing to give.
FIRST = {"jpeg": 3, "grey": 2, "gif": 2, "webp": 10}  # WebP is decoded whole or not at all


@STAGES
@pytest.mark.parametrize("tenths", range(10))
@pytest.mark.parametrize("kind", CUT)
def test_a_cut_file_is_refused_or_filled(kind: str, tenths: int, stage: type[Image]) -> None:
    """Refused in our words; filled, what was there is right, and the rest is noted."""
    data = CUT[kind]
    cut = data[: len(data) * tenths // 10]
    with pytest.raises(ValueError, match="field 'jpg': (damaged [A-Z]+|empty file|no picture)"):
        made(stage, cut, truncated="refuse")
    whole = made(stage, data, truncated="fill")
    assert "__truncated__" not in whole
    if tenths < FIRST.get(kind, 1):
        with pytest.raises(ValueError, match="field 'jpg': "):
            made(stage, cut, truncated="fill")
        return
    filled = made(stage, cut, truncated="fill")
    assert filled["__truncated__"] is True
    assert filled["image"].shape == (64, 64, 3)
    rows = max(64 * (tenths - 6) // 10, 0)
    if kind not in ("progressive", "bmp"):  # bmp begins at the bottom
        assert numpy.array_equal(filled["image"][:rows], whole["image"][:rows])


@STAGES
def test_of_a_cut_progressive_file_every_row_is_there(stage: type[Image]) -> None:
    array = numpy.kron(noise(8, 8), numpy.ones((8, 8, 1), numpy.uint8))
    data = jpeg(array, quality=90, progressive=True)
    filled = made(stage, data[: data.rindex(b"\xff\xda")], truncated="fill")  # its last scan gone
    assert filled["__truncated__"] is True
    assert numpy.abs(filled["image"].astype(int) - made(stage, data)["image"]).mean() < 12
    assert (filled["image"].std((1, 2)) > 20).all()


@STAGES
@pytest.mark.parametrize("kind", ["jpeg", "png"])
def test_both_policies_at_once_in_two_threads(stage: type[Image], kind: str) -> None:
    """The policy is each call's own: nothing that is shared is switched."""
    cut = CUT[kind][: len(CUT[kind]) * 8 // 10]
    both = Barrier(2)

    def many(truncated: Any) -> list[bool]:
        done = []
        for _ in range(60):
            both.wait(60)
            try:
                done.append(made(stage, cut, truncated=truncated)["__truncated__"])
            except ValueError:
                done.append(False)
        return done

    with ThreadPoolExecutor(2) as pool:
        refused, filled = pool.map(many, ("refuse", "fill"))
    assert not any(refused)
    assert all(filled)
    assert PIL.ImageFile.LOAD_TRUNCATED_IMAGES is False


@STAGES
def test_pillows_own_switch(stage: type[Image], monkeypatch: pytest.MonkeyPatch) -> None:
    """Another library may set it: JPEG is refused all the same, and the plan warns of the rest."""
    assert problems(stage()) == []
    monkeypatch.setattr(PIL.ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    with pytest.raises(ValueError, match="truncated"):
        made(stage, CUT["jpeg"][:-200])
    (warning,) = problems(stage())
    assert "LOAD_TRUNCATED_IMAGES is set" in warning
    assert problems(stage(truncated="fill")) == []


# -- what cannot be decoded ----------------------------------------------------------------

REFUSED = {
    "empty": (b"", "empty file: 0 bytes"),
    "html": (b"<html><body>gone", "looks like an HTML page"),
    "two bytes": (b"\xff\xd8", "no picture"),
    "three bytes": (b"\xff\xd8\xff", "damaged JPEG"),
    "12 bits": (with_frame(bits=12), "damaged JPEG, or a kind .* 12-bit"),
    "12 bits, extended": (with_frame(0xC1, bits=12), "damaged JPEG, or a kind .* 12-bit"),
    "lossless": (with_frame(0xC3), "damaged JPEG"),
    "png mark": (b"\x89PNG\r\n\x1a\n", "damaged PNG.* ends inside its header"),
    "png header": (encoded(noise(), "PNG")[:20], "damaged PNG.* ends inside its header"),
    "gif header": (encoded(noise(), "GIF")[:20], "damaged GIF"),
}


@STAGES
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_refused_clearly(stage: type[Image], name: str) -> None:
    data, says = REFUSED[name]
    for truncated in ("refuse", "fill"):
        with pytest.raises(ValueError, match=f"field 'jpg': .*{says}"):
            made(stage, data, truncated=truncated)
