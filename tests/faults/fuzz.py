"""Damaged JPEG, PNG and tar files, and what the stages make of them; run in a child process.

    python -m tests.faults.fuzz KIND SEED COUNT FOLDER

Prints a line every so often, so that a hang is seen, and at the end one JSON object.
"""

from __future__ import annotations

import dataclasses
import io
import json
import random
import sys
import tarfile
import time
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from PIL import Image

from stoker import Pipeline, Quarantine
from stoker.errors import StokerError
from stoker.region import Request
from stoker.rng import Rng
from stoker_plugins import augment, collate, decode, read

REPORT_EVERY = 50
SIDE = 96


# -- what is damaged -------------------------------------------------------------------------


def picture(draw: random.Random, kind: str) -> bytes:
    """Return a small picture in one of the forms that a format has."""
    side = draw.choice((16, 33, 64, SIDE))
    rng = np.random.default_rng(draw.getrandbits(32))
    small = rng.integers(0, 256, (4, 4, 3), np.uint8)
    whole = Image.fromarray(small).resize((side, draw.choice((16, 40, SIDE))))
    out = io.BytesIO()
    if kind == "jpeg":
        mode = draw.choice(("RGB", "RGB", "RGB", "L", "CMYK"))
        exif = Image.Exif()
        exif[0x0112] = draw.randrange(10)
        whole.convert(mode).save(
            out, "JPEG", quality=draw.choice((30, 85, 97)), progressive=draw.random() < 0.3,
            subsampling=draw.choice((0, 1, 2)), exif=exif if draw.random() < 0.5 else b"",
        )  # fmt: skip
    else:
        mode = draw.choice(("RGB", "RGBA", "L", "LA", "P", "1", "I;16"))
        made = whole.convert("L").convert("I").convert("I;16") if mode == "I;16" else None
        (made or whole.convert(mode)).save(out, "PNG")
    return out.getvalue()


def archive(draw: random.Random) -> bytes:
    """Return a small tar file of a few samples."""
    out = io.BytesIO()
    kind = draw.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT))
    with tarfile.open(fileobj=out, mode="w", format=kind) as tar:
        for number in range(draw.randint(1, 4)):
            name = draw.choice(("a", "folder.1/b", "x" * 90)) + f"{number}"
            for ending, data in (("jpg", picture(draw, "jpeg")), ("cls", b"3")):
                member = tarfile.TarInfo(f"{name}.{ending}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def damaged(data: bytes, other: bytes, draw: random.Random) -> bytes:
    """Return data with one to four kinds of damage."""
    out = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        if not out:
            break
        at = draw.randrange(len(out))
        end = min(len(out), at + draw.choice((1, 2, 8, 64, 512)))
        head = draw.randrange(min(len(out), 200))
        kind = draw.randrange(9)
        if kind == 0:
            out[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            out[at:end] = draw.randbytes(end - at)
        elif kind == 2:
            del out[at:]
        elif kind == 3:
            del out[at:end]
        elif kind == 4:
            out[at:at] = out[at:end]
        elif kind == 5:
            out[head : head + 2] = draw.choice((b"\0\0", b"\xff\xff", b"\x7f\xff", b"\0\1"))
        elif kind == 6:
            out[head] = draw.randrange(256)
        elif kind == 7:
            out[at:] = other[draw.randrange(max(len(other), 1)) :]
        else:
            out[at:end] = bytes(end - at)
    return bytes(out)


def mended(data: bytes, kind: str) -> bytes:
    """Return damaged data with its checksums made right, so that the damage gets further in."""
    out = bytearray(data)
    if kind == "png":
        at = 8
        while at + 12 <= len(out):
            size = int.from_bytes(out[at : at + 4], "big")
            end = at + 8 + size
            if end + 4 > len(out):
                break
            out[end : end + 4] = zlib.crc32(out[at + 4 : end]).to_bytes(4, "big")
            at = end + 4
    elif kind == "tar":
        for at in range(0, len(out) - 511, 512):
            if out[at + 257 : at + 262] == b"ustar":
                out[at + 148 : at + 156] = b" " * 8
                out[at + 148 : at + 156] = b"%06o\0 " % sum(out[at : at + 512])
    return bytes(out)


# -- what is done with it --------------------------------------------------------------------


def decoders() -> list[Any]:
    """Return both decoders, with both policies, asked for all of a picture and for a part."""
    crop: Any = augment.RandomResizedCrop(8)
    made: list[Any] = []
    for cls in (decode.Image, decode.Jpeg):
        for policy in ("refuse", "fill"):
            stage: Any = cls(truncated=policy, max_pixels=10**6, source="data")
            made.append((stage, None))
            asked = dataclasses.replace(stage, request=Request(crop, "crop", "image"))
            made.append((asked, crop))
    return made


def pictures(kind: str, seed: int, count: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """Decode so many damaged pictures; return what came of it."""
    made, faults = 0, []
    stages = decoders()
    rng, for_crop = Rng(seed, "decode"), Rng(seed, "crop")
    for number in range(count):
        draw = random.Random(f"{kind} {seed} {number}")
        data = damaged(picture(draw, kind), picture(draw, kind), draw)
        data = mended(data, kind) if number % 2 else data
        for index, (stage, crop) in enumerate(stages):
            try:
                sample = stage.apply({"__key__": "k", "data": data}, rng.move(0, number))
                image = sample["image"]
                if crop is not None:
                    image = crop.apply(sample, for_crop.move(0, number))["image"]
                assert image.dtype == np.uint8
                assert image.ndim == 3
                assert image.shape[2] == 3
                made += 1
            except ValueError as error:
                if "field 'data'" not in str(error):
                    faults.append(f"{kind} {number}, decoder {index}: {error!r} names no field")
            except Exception as error:
                faults.append(f"{kind} {number}, decoder {index}: {error!r}")
        tell(f"{number}")
    return {"made": made, "refused": count * len(stages) - made - len(faults), "faults": faults}


def archives(seed: int, count: int, folder: Path, tell: Callable[[str], None]) -> dict[str, Any]:
    """Read so many damaged tar files; return what came of it."""
    made = refused = 0
    faults: list[str] = []
    for number in range(count):
        draw = random.Random(f"tar {seed} {number}")
        path = folder / f"{number}.tar"
        data = damaged(archive(draw), archive(draw), draw)
        path.write_bytes(mended(data, "tar") if number % 2 else data)
        pipeline = Pipeline(
            "fuzz",
            read.WebDataset(str(path), executor="inline"),
            decode.Jpeg(executor="inline", max_pixels=10**6),
            collate.List(2, executor="inline"),
            on_error=Quarantine(10**6),
            device="cpu",
        )
        try:
            with pipeline as loader:
                made += sum(len(batch["__key__"]) for batch in loader)
                records = loader.failures.records
            refused += len(records)
            if not loader.ledger.balanced:
                faults.append(f"tar {number}: {loader.ledger}")
            nameless = [r for r in records if not (r["key"] or r["shard"])]
            faults += [f"tar {number}: {record} names no sample" for record in nameless]
        except StokerError as error:
            refused += 1
            if path.name not in str(error):
                faults.append(f"tar {number}: {error!r} does not name the shard")
        except Exception as error:
            faults.append(f"tar {number}: {error!r}")
        for left in folder.iterdir():
            left.unlink()
        tell(f"{number}")
    return {"made": made, "refused": refused, "faults": faults}


def main(arguments: list[str]) -> int:
    """Damage, try and tell."""
    kind, seed, count, folder = arguments[0], *map(int, arguments[1:3]), Path(arguments[3])
    warnings.simplefilter("error", ResourceWarning)
    warnings.simplefilter("ignore", UserWarning)  # Pillow's, of damage that it forgives
    memory = psutil.Process()
    rss: list[int] = []
    begun = time.perf_counter()

    def tell(line: str) -> None:
        number = int(line)
        if number % REPORT_EVERY == 0:
            print(number, flush=True)
        if number in (count // 4, count - 1):
            rss.append(memory.memory_info().rss)

    if kind == "tar":
        result = archives(seed, count, folder, tell)
    else:
        result = pictures(kind, seed, count, tell)
    result |= {"growth": rss[-1] - rss[0], "seconds": time.perf_counter() - begun}
    print(json.dumps(result), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
