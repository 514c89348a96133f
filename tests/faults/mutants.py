"""Damaged files, each made from a number: pictures and tar shards as they come from bad disks."""

from __future__ import annotations

import io
import random
import struct
import tarfile
import zlib
from collections.abc import Callable
from functools import cache

import numpy
from PIL import Image, PngImagePlugin

from tests.plugins.decode.helpers import encoded, exif, noise
from tests.plugins.decode.pictures import ARITHMETIC, animation, exif_with_thumbnail, jpeg, smooth

Operation = Callable[[random.Random, bytearray], None]
# What fields of headers are set to: limits, signs and sizes.
_VALUES = (0, 1, 2, 3, 4, 7, 8, 9, 11, 12, 16, 127, 128, 129, 254, 255)


@cache
def jpegs() -> list[bytes]:
    """Return JPEG files of every kind that the fast decoder meets, of 32 to 96 px."""
    mixed = Image.blend(Image.fromarray(smooth(64, 80)), Image.fromarray(noise(64, 80)), 0.2)
    return [
        *(jpeg(mixed, subsampling=kind) for kind in ("4:4:4", "4:2:2", "4:2:0", "4:1:1")),
        jpeg(mixed, progressive=True),
        jpeg(noise(32, 33), quality=95, progressive=True, subsampling="4:4:4"),
        jpeg(mixed.convert("L")),
        jpeg(mixed.convert("CMYK")),
        jpeg(mixed, exif=b"Exif\0\0" + exif(6), restart_marker_rows=1),
        jpeg(mixed, exif=exif_with_thumbnail(8), icc_profile=bytes(3000)),
        jpeg(smooth(96, 96), quality=30, optimize=True, comment=b"a comment"),
        ARITHMETIC,
    ]


@cache
def pngs() -> list[bytes]:
    """Return PNG files of every mode, of 32 to 64 px."""
    told = PngImagePlugin.PngInfo()
    told.add_text("Title", "words" * 40, zip=True)
    told.add_itxt("Author", "somebody")
    picture = Image.fromarray(noise(32, 40))
    return [
        encoded(picture, "PNG"),
        encoded(smooth(), "PNG", pnginfo=told, icc_profile=bytes(3000), exif=exif(5)),
        encoded(numpy.dstack([noise(32, 32), noise(32, 32)[:, :, :1]]), "PNG"),
        encoded(picture.convert("LA"), "PNG"),
        encoded(picture.convert("P"), "PNG", transparency=bytes(range(256))),
        encoded(picture.convert("1"), "PNG"),
        encoded(numpy.arange(1024, dtype=numpy.uint16).reshape(32, 32) * 64, "PNG"),
        animation("PNG"),
    ]


@cache
def tars() -> list[bytes]:
    """Return tar shards of a few samples each: of plain names, and of names in other headers."""
    pictures = [*jpegs()[:3], *pngs()[:2]]
    made = []
    for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=form) as tar:
            for number, data in enumerate(pictures):
                long = "" if form == tarfile.USTAR_FORMAT else "long/" * 30
                for name, body in (("jpg", data), ("cls", b"%d" % number)):
                    member = tarfile.TarInfo(f"{long}{number:03}.{name}")
                    member.size = len(body)
                    tar.addfile(member, io.BytesIO(body))
        made.append(buffer.getvalue())
    return made


def picture(seed: int) -> bytes:
    """Return the damaged picture of a number."""
    rng = random.Random(seed)
    kind = rng.choice((jpegs, jpegs, pngs))
    data = _mutated(rng, kind(), _marker if kind is jpegs else _chunk)
    return _with_checks(data) if kind is pngs and rng.random() < 0.7 else data


def shard(seed: int) -> bytes:
    """Return the damaged tar shard of a number."""
    rng = random.Random(seed)
    data = _mutated(rng, tars(), _member)
    return _with_sums(data) if rng.random() < 0.7 else data


def _mutated(rng: random.Random, sound: list[bytes], header: Operation) -> bytes:
    data = bytearray(rng.choice(sound))
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if rng.random() < 0.1:
            _splice(rng, data, rng.choice(sound))
        else:
            rng.choice((_bits, _run, _cut, _double, _remove, header, header, header))(rng, data)
    return bytes(data)


def _bits(rng: random.Random, data: bytearray) -> None:
    for _ in range(rng.choice((1, 3, 20))):
        if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _span(rng: random.Random, data: bytearray) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 2, 4, 30, 512, 4000)))


def _run(rng: random.Random, data: bytearray) -> None:
    start, end = _span(rng, data)
    data[start:end] = bytes([rng.choice(_VALUES)]) * (end - start)


def _cut(rng: random.Random, data: bytearray) -> None:
    del data[rng.randrange(len(data) + 1) :]


def _double(rng: random.Random, data: bytearray) -> None:
    start, end = _span(rng, data)
    data[end:end] = data[start:end]


def _remove(rng: random.Random, data: bytearray) -> None:
    start, end = _span(rng, data)
    del data[start:end]


def _splice(rng: random.Random, data: bytearray, other: bytes) -> None:
    data[rng.randrange(len(data) + 1) :] = other[rng.randrange(len(other)) :]


def _edit(rng: random.Random, data: bytearray, start: int, size: int) -> None:
    """Set a byte or two of a field."""
    at = start + rng.randrange(size)
    for place in range(at, min(at + rng.choice((1, 1, 2)), len(data))):
        data[place] = rng.choice(_VALUES)


def _marker(rng: random.Random, data: bytearray) -> None:
    """Edit a JPEG segment's marker, length or first fields."""
    marks = [at for at in range(len(data) - 1) if data[at] == 0xFF and data[at + 1] >= 0xC0]
    if marks:
        _edit(rng, data, rng.choice(marks) + 1, rng.choice((1, 3, 12)))


def _chunk(rng: random.Random, data: bytearray) -> None:
    """Edit a PNG chunk's length, name or first fields."""
    chunks = [at for at, _ in _chunks(data)]
    if chunks:
        _edit(rng, data, rng.choice(chunks), rng.choice((4, 8, 8 + 13)))


def _member(rng: random.Random, data: bytearray) -> None:
    """Edit a tar header: name, mode, owner, size, time, type, magic or prefix."""
    headers = range(0, max(len(data) - 511, 1), 512)
    start = rng.choice(headers)
    offset, size = rng.choice(
        ((0, 100), (124, 12), (124, 12), (136, 12), (156, 1), (257, 8), (345, 9))
    )
    _edit(rng, data, start + offset, size)


def _chunks(data: bytes | bytearray) -> list[tuple[int, int]]:
    """Return (offset, length) of a PNG's chunks, as far as they can be followed."""
    found, at = [], 8
    while at + 12 <= len(data):
        (length,) = struct.unpack_from(">L", data, at)
        if at + 12 + length > len(data):
            break
        found.append((at, length))
        at += 12 + length
    return found


def _with_checks(data: bytes) -> bytes:
    """Return a PNG with its check sums right, so that its damage is looked at."""
    whole = bytearray(data)
    for at, length in _chunks(data):
        body = data[at + 4 : at + 8 + length]
        struct.pack_into(">L", whole, at + 8 + length, zlib.crc32(body))
    return bytes(whole)


def _with_sums(data: bytes) -> bytes:
    """Return a tar with the sums of what are headers by their magic right."""
    whole = bytearray(data)
    for at in range(0, len(data) - 511, 512):
        if whole[at + 257 : at + 262] == b"ustar":
            whole[at + 148 : at + 156] = b" " * 8
            whole[at + 148 : at + 156] = b"%06o\0 " % sum(whole[at : at + 512])
    return bytes(whole)
