"""The job that all loaders of `bench.peers` do, with the one function that prepares a picture.

Each picture is a file; it is read, decoded, cropped at random, resized and flipped or not,
and 64 of them make a batch of uint8 (B, H, W, C) with their labels.
"""

from __future__ import annotations

import io
import json
import math
import random
import tarfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Epoch = Callable[[int], Iterable[Any]]
"""Begins an epoch by its number, and gives its batches."""


@dataclass(frozen=True)
class Job:
    """What is to be loaded, and how."""

    files: str
    """Folder with a folder of JPEG files for each class."""
    shards: tuple[str, ...]
    """The same pictures as tar files."""
    pictures: int
    batch_size: int = 64
    size: int = 224
    workers: int = 2
    """Threads or processes that a loader may work with: one a core."""

    def to_json(self) -> str:
        """Return it as text, for another process."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Job:
        """Return the job that `to_json` wrote."""
        given: dict[str, Any] = json.loads(text)
        return Job(**{**given, "shards": tuple(given["shards"])})

    def listed(self) -> list[tuple[str, int]]:
        """Return path and label of each file, in the order of their names."""
        return list(_listed(self.files))

    def shuffled(self, epoch: int) -> list[tuple[str, int]]:
        """Return path and label of each file, in another order in each epoch."""
        files = self.listed()
        random.Random(epoch).shuffle(files)
        return files


Open = Callable[[Job], AbstractContextManager[Epoch]]
"""Sets a loader up for a job."""


@cache
def _listed(folder: str) -> tuple[tuple[str, int], ...]:
    root = Path(folder)
    classes = sorted(path.name for path in root.iterdir())
    label = {name: index for index, name in enumerate(classes)}
    return tuple((str(path), label[path.parent.name]) for path in sorted(root.glob("*/*.jpg")))


# -- one picture -----------------------------------------------------------------------


class Draw(Protocol):
    """What draws: the module `random`, or a generator of its class `Random`."""

    def random(self) -> float:
        """Return a number from 0 to 1."""

    def uniform(self, a: float, b: float) -> float:
        """Return a number from a to b."""

    def randint(self, a: int, b: int) -> int:
        """Return a whole number from a to b, both included."""


def prepared(data: bytes, draw: Draw, size: int) -> NDArray[np.uint8]:
    """Return a random part of a picture, perhaps mirrored: array (size, size, 3).

    Args:
        data: a JPEG file.
        draw: where the draws come from.
        size: side of the result, in pixels.
    """
    with Image.open(io.BytesIO(data)) as file:
        box = _drawn_box(file.width, file.height, draw)
        picture = file.convert("RGB").resize((size, size), Image.Resampling.BILINEAR, box=box)
    if draw.random() < 0.5:
        picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return np.array(picture)


def _drawn_box(width: int, height: int, draw: Draw) -> tuple[int, int, int, int]:
    """Return a box (left, top, right, bottom) of 8 to 100 % of the area, 3:4 to 4:3."""
    for _ in range(10):
        area = width * height * draw.uniform(0.08, 1.0)
        aspect = math.exp(draw.uniform(math.log(3 / 4), math.log(4 / 3)))
        wide, high = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < wide <= width and 0 < high <= height:
            left, top = draw.randint(0, width - wide), draw.randint(0, height - high)
            return left, top, left + wide, top + high
    return 0, 0, width, height


def read(path: str) -> bytes:
    """Return a file's bytes."""
    with open(path, "rb") as file:
        return file.read()


def loaded(file: tuple[str, int], size: int) -> tuple[NDArray[np.uint8], int]:
    """Return picture and label of a file."""
    path, label = file
    return prepared(read(path), random, size), label


def stacked(rows: Sequence[tuple[NDArray[np.uint8], int]]) -> tuple[Any, Any]:
    """Return a batch as arrays: pictures (B, H, W, C) and labels (B,)."""
    return np.stack([picture for picture, _ in rows]), np.array([label for _, label in rows])


def stacked_tensors(rows: Sequence[tuple[NDArray[np.uint8], int]]) -> tuple[Any, Any]:
    """Return a batch as tensors: pictures (B, H, W, C) and labels (B,)."""
    import torch

    pictures = torch.stack([torch.from_numpy(picture) for picture, _ in rows])
    return pictures, torch.tensor([label for _, label in rows])


# -- the pictures ----------------------------------------------------------------------


def make_job(folder: Path, pictures: int, workers: int, batch_size: int = 64) -> Job:
    """Write crops of photographs, as shards and as files; return the job to load them.

    Args:
        folder: where to.
        pictures: about how many; rounded so that all workers have whole batches.
        workers: threads or processes of a loader.
        batch_size: pictures in a batch.
    """
    from stoker_pipelines.photos_data import make_photos

    each = max(1, round(pictures / (batch_size * workers))) * batch_size
    count = each * workers
    # Several shards a worker, all of one size: WebDataset gives out whole shards.
    per_shard = next(each // parts for parts in (4, 2, 1) if each % parts == 0)
    make_photos(folder / "shards", train=count, val=1, samples_per_shard=per_shard)
    shards = sorted(map(str, (folder / "shards").glob("train-*.tar")))
    _unpack(shards, folder / "files")
    return Job(str(folder / "files"), tuple(shards), count, batch_size, workers=workers)


def _unpack(shards: Sequence[str], folder: Path) -> None:
    for shard in shards:
        members: dict[str, dict[str, bytes]] = {}
        with tarfile.open(shard) as tar:
            for member in tar:
                key, _, field = member.name.partition(".")
                file = tar.extractfile(member)
                assert file is not None
                members.setdefault(key, {})[field] = file.read()
        for key, fields in members.items():
            path = folder / f"class{int(fields['cls']):02d}" / f"{key}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(fields["jpg"])
