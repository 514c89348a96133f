"""The job that all loaders of `bench.peers` do, with the functions that prepare a picture.

Each picture is a file; it is read, decoded, cropped at random, resized and flipped or not,
and 64 of them make a batch of uint8 (B, H, W, C) with their labels.
"""

from __future__ import annotations

import io
import json
import math
import random
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

PILLOW, IMAGE, JPEG = "pillow", "decode.image", "decode.jpeg"
"""Functions that prepare a picture: with Pillow alone, and as Stoker's stages do."""


@dataclass(frozen=True)
class Job:
    """What is to be loaded, and how."""

    files: str
    """Folder with a folder of JPEG files for each class."""
    shards: tuple[str, ...]
    """The same pictures as tar files."""
    pictures: int
    formats: str
    """Folder for the same pictures in other libraries' own formats."""
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


Open = Callable[..., AbstractContextManager[Epoch]]
"""Sets a loader up for a job, with one of the functions, by its name."""


@cache
def _listed(folder: str) -> tuple[tuple[str, int], ...]:
    root = Path(folder)
    classes = sorted(path.name for path in root.iterdir())
    label = {name: index for index, name in enumerate(classes)}
    return tuple((str(path), label[path.parent.name]) for path in sorted(root.glob("*/*.jpg")))


def whole_batches(pictures: int, workers: int, batch_size: int = 64) -> tuple[int, int]:
    """Return about as many pictures of which all workers have whole batches, and how many a shard.

    Several shards a worker, all of one size: WebDataset gives out whole shards.
    """
    each = max(1, round(pictures / (batch_size * workers))) * batch_size
    return each * workers, next(each // parts for parts in (4, 2, 1) if each % parts == 0)


def warm(job: Job) -> None:
    """Bring all files and shards into the page cache."""
    for path in (*(path for path, _ in job.listed()), *job.shards):
        read(path)


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
    """Return a box (left, top, right, bottom) of 8 to 100 % of the area, 3:4 to 4:3.

    Drawn in the order in which Stoker's crop draws, so that equal seeds give equal boxes.
    """
    for _ in range(10):
        area = width * height * draw.uniform(0.08, 1.0)
        aspect = math.exp(draw.uniform(math.log(3 / 4), math.log(4 / 3)))
        wide, high = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < wide <= width and 0 < high <= height:
            top, left = draw.randint(0, height - high), draw.randint(0, width - wide)
            return left, top, left + wide, top + high
    return 0, 0, width, height


def read(path: str) -> bytes:
    """Return a file's bytes."""
    with open(path, "rb") as file:
        return file.read()


def made(data: bytes, how: str, size: int) -> NDArray[np.uint8]:
    """Return a prepared picture, array (size, size, 3), with draws of the module `random`.

    Args:
        data: a JPEG file.
        how: which function prepares it.
        size: side of the result, in pixels.
    """
    return _function(how, size)(data)


def loaded(file: tuple[str, int], how: str, size: int) -> tuple[NDArray[np.uint8], int]:
    """Return picture and label of a file."""
    path, label = file
    return made(read(path), how, size), label


@cache
def _function(how: str, size: int) -> Callable[[bytes], NDArray[np.uint8]]:
    if how == PILLOW:
        return lambda data: prepared(data, random, size)
    from bench.peers_stoker import plain

    return plain(how, size)


def stacked(rows: Sequence[tuple[NDArray[np.uint8], int]]) -> tuple[Any, Any]:
    """Return a batch as arrays: pictures (B, H, W, C) and labels (B,)."""
    return np.stack([picture for picture, _ in rows]), np.array([label for _, label in rows])


def stacked_tensors(rows: Sequence[tuple[NDArray[np.uint8], int]]) -> tuple[Any, Any]:
    """Return a batch as tensors: pictures (B, H, W, C) and labels (B,)."""
    import torch

    pictures = torch.stack([torch.from_numpy(picture) for picture, _ in rows])
    return pictures, torch.tensor([label for _, label in rows])
