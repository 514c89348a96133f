"""Every form of picture through both decoders: right by a reference, and alike.

What a form's colours have to be is said in the tests of its own (B07, B09, B10, ...); here each is
held to a reference made without Stoker, and `decode.jpeg` to `decode.image`.
"""

from __future__ import annotations

import contextlib
import io
import struct
import threading
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from stoker.testing import apply
from stoker_plugins import decode
from tests.plugins.decode.helpers import encoded, exif, noise, png_header

pytest.importorskip("simplejpeg")

DECODERS: list[Any] = [decode.Image, decode.Jpeg]
both = pytest.mark.parametrize("decoder", DECODERS, ids=["image", "jpeg"])


def smooth(height: int = 37, width: int = 53) -> Image.Image:
    return Image.fromarray(noise(5, 7)).resize((width, height), Image.Resampling.BICUBIC)


def saved(picture: Image.Image, kind: str, **options: Any) -> bytes:
    out = io.BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


def by_pillow(data: bytes) -> NDArray[np.uint8]:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def over_white(data: bytes) -> NDArray[np.uint8]:
    picture = Image.open(io.BytesIO(data)).convert("RGBA")
    white = Image.new("RGBA", picture.size, (255, 255, 255, 255))
    return np.asarray(Image.alpha_composite(white, picture).convert("RGB"))


def apng() -> bytes:
    frames = [Image.new("RGB", (9, 6), colour) for colour in ("red", "lime")]
    return saved(frames[0], "PNG", save_all=True, append_images=frames[1:])


def gif() -> bytes:
    frames = [Image.new("RGB", (9, 6), colour) for colour in ("red", "lime")]
    return saved(frames[0], "GIF", save_all=True, append_images=frames[1:])


def mpo() -> bytes:
    return saved(smooth(), "MPO", save_all=True, append_images=[smooth().rotate(180)])


def with_segments(data: bytes, count: int) -> bytes:
    """Return a JPEG with so many application segments of the greatest size put in."""
    segment = b"\xff\xeb" + struct.pack(">H", 65535) + bytes(65533)
    return data[:2] + segment * count + data[2:]


def thumbnailed() -> bytes:
    """Return a JPEG whose EXIF data hold another whole JPEG."""
    small = saved(Image.new("RGB", (16, 16), "red"), "JPEG")
    return saved(smooth(), "JPEG", exif=b"Exif\0\0" + exif(1) + small)


FORMS: dict[str, tuple[Callable[[], bytes], Callable[[bytes], NDArray[np.uint8]], int]] = {
    "png": (lambda: saved(smooth(), "PNG"), by_pillow, 0),
    "png palette": (lambda: saved(smooth().quantize(17), "PNG"), by_pillow, 0),
    "png palette, one transparent": (
        lambda: saved(smooth().quantize(17), "PNG", transparency=3), over_white, 1,
    ),
    "png palette, many transparent": (
        lambda: saved(smooth().quantize(9), "PNG", transparency=bytes(range(0, 252, 28))),
        over_white, 1,
    ),
    "png LA": (lambda: saved(smooth().convert("LA"), "PNG"), over_white, 1),
    "png RGBA": (lambda: saved(smooth().convert("RGBA"), "PNG"), over_white, 1),
    "png 1 bit": (lambda: saved(smooth().convert("1"), "PNG"), by_pillow, 0),
    "png grey": (lambda: saved(smooth().convert("L"), "PNG"), by_pillow, 0),
    "png interlaced": (lambda: _interlaced(), by_pillow, 0),
    "apng": (apng, lambda data: np.full((6, 9, 3), (255, 0, 0), np.uint8), 0),
    "gif": (gif, lambda data: np.full((6, 9, 3), (255, 0, 0), np.uint8), 0),
    "webp": (lambda: saved(smooth(), "WEBP", lossless=True), by_pillow, 0),
    "webp RGBA": (lambda: saved(smooth().convert("RGBA"), "WEBP", lossless=True), over_white, 1),
    "tiff": (lambda: saved(smooth(), "TIFF"), by_pillow, 0),
    "bmp": (lambda: saved(smooth(), "BMP"), by_pillow, 0),
    "ppm": (lambda: saved(smooth(), "PPM"), by_pillow, 0),
    "jpeg": (lambda: saved(smooth(), "JPEG"), by_pillow, 0),
    "jpeg progressive": (lambda: saved(smooth(), "JPEG", progressive=True), by_pillow, 0),
    "jpeg 4:4:4": (lambda: saved(smooth(), "JPEG", subsampling=0), by_pillow, 0),
    "jpeg 4:2:2": (lambda: saved(smooth(), "JPEG", subsampling=1), by_pillow, 0),
    "jpeg 4:1:1": (lambda: saved(smooth(), "JPEG", subsampling="4:1:1"), by_pillow, 0),
    "jpeg restart": (lambda: saved(smooth(), "JPEG", restart_marker_blocks=2), by_pillow, 0),
    "jpeg grey": (lambda: saved(smooth().convert("L"), "JPEG"), by_pillow, 0),
    "jpeg 1 x 1": (lambda: saved(smooth(1, 1), "JPEG"), by_pillow, 0),
    "jpeg 1 x 97": (lambda: saved(smooth(1, 97), "JPEG"), by_pillow, 0),
    "jpeg 101 x 3": (lambda: saved(smooth(101, 3), "JPEG"), by_pillow, 0),
    "jpeg with garbage behind": (lambda: saved(smooth(), "JPEG") + b"garbage" * 9, by_pillow, 0),
    "jpeg with large segments": (lambda: with_segments(saved(smooth(), "JPEG"), 40), by_pillow, 0),
    "jpeg with a thumbnail": (thumbnailed, by_pillow, 0),
    "mpo": (mpo, lambda data: np.asarray(Image.open(io.BytesIO(data)).convert("RGB")), 0),
}  # fmt: skip


def _interlaced() -> bytes:
    """Return an interlaced PNG of one pixel, which Pillow does not write."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 1)
    pixel = zlib.compress(b"\0\x0a\x14\x1e")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")


@both
@pytest.mark.parametrize("form", sorted(FORMS))
def test_each_form_is_right(form: str, decoder: Any) -> None:
    make, reference, tolerance = FORMS[form]
    data = make()
    # Under a wrong extension too: the content decides.
    for field in ("jpg", "png"):
        found = apply(decoder(), {"__key__": "k", field: data})["image"]
        wanted = reference(data)
        assert found.shape == wanted.shape
        assert np.abs(found.astype(int) - wanted).max() <= tolerance
        assert found.dtype == np.uint8
        assert found.flags.c_contiguous


@both
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "stored"])
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_declared_modes(mode: Any, kind: str, decoder: Any) -> None:
    picture = smooth()
    found = apply(decoder(mode=mode), {"jpg": saved(picture, kind)})["image"]
    opened = Image.open(io.BytesIO(saved(picture, kind)))
    wanted = np.asarray(opened.convert("RGB" if mode == "stored" else mode))
    assert np.array_equal(found, wanted[:, :, None] if wanted.ndim == 2 else wanted)


@both
def test_16_bits_and_palettes_are_kept_on_request(decoder: Any) -> None:
    ramp = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
    found = apply(decoder(mode="stored"), {"png": encoded(ramp, "PNG")})["image"]
    assert found.dtype == np.uint16
    assert np.array_equal(found[:, :, 0], ramp)
    palette = smooth().quantize(9)
    found = apply(decoder(mode="stored"), {"png": saved(palette, "PNG")})["image"]
    assert np.array_equal(found[:, :, 0], np.asarray(palette))
    inks = smooth().convert("CMYK")
    found = apply(decoder(mode="stored"), {"jpg": saved(inks, "JPEG", quality=100)})["image"]
    assert found.shape[2] == 4


@both
def test_B07_a_16_bit_ramp_is_scaled_and_never_clamped(decoder: Any) -> None:
    ramp = np.arange(0, 65536, 64, np.uint32).astype(np.uint16).reshape(32, 32)
    found = apply(decoder(), {"png": encoded(ramp, "PNG")})["image"][:, :, 0].ravel().astype(int)
    assert found[0] == 0
    assert found[-1] == 255
    assert (np.diff(found) >= 0).all()
    assert len(np.unique(found)) == 256


@both
@pytest.mark.parametrize("orientation", [*range(10), 77])
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_B10_upright_exactly_once(orientation: int, kind: str, decoder: Any) -> None:
    from PIL import ImageOps

    data = saved(smooth(), kind, exif=b"Exif\0\0" + exif(orientation))
    found = apply(decoder(), {"jpg": data})["image"]
    opened = Image.open(io.BytesIO(data))
    turned = ImageOps.exif_transpose(opened) if 1 <= orientation <= 8 else opened
    assert np.array_equal(found, np.asarray(turned.convert("RGB")))
    assert (found.shape[:2] == (53, 37)) is (5 <= orientation <= 8)


@both
@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "field 'jpg'.*empty"),
        (b"<!doctype html><html>no such picture</html>", "field 'jpg'"),
        (b"\xff\xd8", "field 'jpg'"),
        (b"\xff\xd8\xff\xe0", "field 'jpg'"),
        (b"\0" * 2000, "field 'jpg'"),
        (png_header(60_000, 60_000), r"field 'jpg'.*3600000000 pixels.*max_pixels"),
    ],
)
def test_B12_S4_what_is_no_picture_or_too_large_is_refused_by_name(
    data: bytes, says: str, decoder: Any
) -> None:
    with pytest.raises(ValueError, match=says):
        apply(decoder(), {"__key__": "k", "jpg": data})


@both
@pytest.mark.parametrize("form", ["jpeg", "jpeg progressive", "jpeg grey", "png", "png RGBA"])
@pytest.mark.parametrize("share", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
def test_cut_files_follow_the_policy(form: str, share: float, decoder: Any) -> None:
    whole = FORMS[form][0]()
    data = whole[: round(len(whole) * share)]
    with pytest.raises(ValueError, match="field 'jpg'"):
        apply(decoder(), {"jpg": data})
    # What ends inside a header (of a file, or of one of a progressive file's scans) gives nothing.
    gives = share >= (1.0 if form == "jpeg progressive" else 0.9)
    filled: Any = None
    with contextlib.nullcontext() if gives else contextlib.suppress(ValueError):
        filled = apply(decoder(truncated="fill"), {"jpg": data})
    assert filled is None or filled["__truncated__"] is True
    assert filled is None or filled["image"].shape == (37, 53, 3)


@both
def test_two_policies_at_once_do_not_meet(decoder: Any) -> None:
    whole = FORMS["jpeg"][0]()
    data = whole[: len(whole) * 2 // 3]
    outcomes: dict[str, set[str]] = {"refuse": set(), "fill": set()}

    def work(policy: Any) -> None:
        for _ in range(150):
            try:
                found = apply(decoder(truncated=policy), {"jpg": data})
                outcomes[policy].add(f"filled {found['image'].shape}")
            except ValueError:
                outcomes[policy].add("refused")

    threads = [threading.Thread(target=work, args=(policy,)) for policy in outcomes for _ in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == {"refuse": {"refused"}, "fill": {"filled (37, 53, 3)"}}


@both
def test_forms_without_a_decoder_are_refused_clearly(decoder: Any) -> None:
    """12 bits a channel, by a header that says so."""
    data = bytearray(saved(smooth(), "JPEG"))
    start = data.index(b"\xff\xc0")
    data[start + 4] = 12
    with pytest.raises(ValueError, match="field 'jpg'"):
        apply(decoder(), {"jpg": bytes(data)})
