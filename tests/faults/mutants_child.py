"""The process that decodes damaged files; it says where it stands, line by line, as JSON.

Run as `python -m tests.faults.mutants_child FIRST COUNT FOLDER`. The number of the file in work
is in FOLDER/at, for when the process is no more.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from stoker import Map, Pipeline, Quarantine, param
from stoker.errors import SampleError, StokerError
from stoker.rng import Rng
from stoker.sample import Sample
from stoker.stages import Source
from stoker_plugins import augment, collate, decode, read
from stoker_plugins.decode import Image, Jpeg
from tests.faults.mutants import picture, shard

BATCH = 250
# Of a damaged size no more is decoded than this, so that what is measured is the decoder's.
MOST = 1 << 20
TAR_EVERY = 10
Outcome = dict[str, int | str]
"""For each key a digest of its pixels, or the error that refused it."""


@dataclass(frozen=True)
class Mutants(Source):
    """Gives the damaged pictures of a range of numbers."""

    name = "fuzz.mutants"
    first: int = param(0, minimum=0)
    count: int = param(1, minimum=1)

    def addresses(self, epoch: int, rng: Rng) -> Sequence[int]:
        return range(self.first, self.first + self.count)

    def read(self, address: Any) -> Sample:
        return {"__key__": f"seed {address}", "jpg": picture(address)}


@dataclass(frozen=True)
class Marked(Image):
    """decode.image, with the number in work written down."""

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        mark(sample["__key__"])
        return super().apply(sample, rng)


@dataclass(frozen=True)
class MarkedJpeg(Jpeg):
    """decode.jpeg, with the number in work written down."""

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        mark(sample["__key__"])
        return super().apply(sample, rng)


@dataclass(frozen=True)
class Digest(Map):
    """Sees that a picture is what decoders promise, and keeps a digest of it."""

    name, kind = "fuzz.digest", "augment"

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        image = sample["image"]
        assert image.dtype == "uint8"
        assert image.ndim == 3
        assert image.shape[2] == 3
        assert image.flags.c_contiguous
        note = f"{image.shape}{sample.get('__mode__')}{sample.get('__truncated__')}"
        digest = zlib.crc32(image.tobytes(), zlib.crc32(note.encode()))
        return {"__key__": sample["__key__"], "digest": digest}


def mark(text: str) -> None:
    """Write down what is in work."""
    os.pwrite(MARK, text.encode().ljust(80), 0)


def run(*stages: Any) -> tuple[Outcome, list[str]]:
    """Return what became of every sample, and what is wrong with how it was refused."""
    end = collate.Stack(64)
    with Pipeline("fuzz", *stages, Digest(), end, on_error=Quarantine(10**9)) as loader:
        found: Outcome = {
            key: int(digest)
            for batch in loader
            for key, digest in zip(batch["__key__"], batch["digest"], strict=True)
        }
        records = list(loader.failures.records)
        loader.ledger.check()
    wrong = []
    for record in records:
        found[str(record["key"])] = str(record["error"])
        if not record["key"] or not record["error"].startswith(
            ("ValueError: field", "KeyError: no ")
        ):
            wrong.append(f"{record['key']}: {record['stage']}: {record['error']}")
    return found, wrong


def pictures(first: int) -> Iterator[str]:
    """Decode a batch of pictures every way; yield what is wrong."""
    count = BATCH - BATCH // TAR_EVERY
    for policy in ("refuse", "fill"):
        whole = {}
        for cropped in (False, True):
            for stage in (Marked, MarkedJpeg):
                made = stage(truncated=policy, max_pixels=MOST)  # type: ignore[arg-type]
                crop = [augment.RandomResizedCrop(12, scale=(0.1, 1.0))] if cropped else []
                found, wrong = run(Mutants(first, count), made, *crop)
                yield from (f"{policy} {line}" for line in wrong)
                if len(found) != count:
                    yield f"{policy}: {len(found)} of {count} samples accounted for from {first} on"
                if not cropped:
                    whole[stage.name] = found
        slow, fast = whole["decode.image"], whole["decode.jpeg"]
        differ = [key for key in slow if slow[key] != fast[key]]
        yield from (f"{policy} {key}: {slow[key]}, with jpeg {fast[key]}" for key in differ)
        yield from raised(first, slow, policy)


def raised(first: int, found: Outcome, policy: Any) -> Iterator[str]:
    """Let the first refused sample end a run; yield where its error does not name it."""
    key = next((key for key, value in found.items() if isinstance(value, str)), None)
    if key is None:
        return
    number = int(key.split()[1])
    stages = Mutants(number, 1), Marked(truncated=policy, max_pixels=MOST), collate.Stack(1)
    try:
        with Pipeline("raised", *stages) as loader:
            list(loader)
    except SampleError as error:
        if repr(key) not in str(error):
            yield f"{key}: the error does not name it: {error}"
    else:
        yield f"{key}: refused in a batch, and not alone"


def shards(first: int, folder: Path) -> Iterator[str]:
    """Read a batch of damaged tars; yield what is wrong."""
    for number in range(first + BATCH - BATCH // TAR_EVERY, first + BATCH):
        path = folder / f"{number}.tar"
        path.write_bytes(shard(number))
        mark(f"tar seed {number}")
        try:
            _, wrong = run(
                read.WebDataset(str(path), keep_index=False), decode.Image(max_pixels=MOST)
            )
            yield from (f"tar seed {number}: {line}" for line in wrong)
        except StokerError as error:
            if str(path) not in str(error) and path.name not in str(error):
                yield f"tar seed {number}: {type(error).__name__} does not name it: {error}"
        except Exception as error:
            yield f"tar seed {number}: raw {type(error).__name__}: {error}"
        path.unlink()


def main(first: int, count: int, folder: Path) -> None:
    """Go through `count` files from a number on, and say after each batch what was wrong."""
    told: list[str] = []
    warnings.simplefilter("always")
    warnings.showwarning = lambda message, category, filename, *_: (  # type: ignore[assignment]
        told.append(f"warning: {message}") if "PIL" in filename else None
    )
    for start in range(first, first + count, BATCH):
        faulthandler.dump_traceback_later(100, exit=True)
        wrong = [*pictures(start), *shards(start, folder), *told]
        told.clear()
        line = {
            "done": start + BATCH - first,
            "wrong": wrong[:20],
            "rss": psutil.Process().memory_info().rss,
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    faulthandler.enable()
    FOLDER = Path(sys.argv[3])
    MARK = os.open(FOLDER / "at", os.O_CREAT | os.O_RDWR)
    main(int(sys.argv[1]), int(sys.argv[2]), FOLDER)
