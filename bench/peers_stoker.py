"""Stoker's ways to do the job of `bench.peers`, and the same stages as a plain function."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from bench.peers_job import IMAGE, PILLOW, Epoch, Job, prepared
from stoker.parameters import param
from stoker.region import Request
from stoker.rng import Rng
from stoker.sample import Sample
from stoker.stages import Map


@dataclass(frozen=True)
class Prepare(Map):
    """Prepares a picture by the Pillow function that other loaders run."""

    name: ClassVar[str] = "bench.prepare"
    kind: ClassVar[str] = "augment"
    example: ClassVar[str] = "Prepare(224)"

    size: int = param(help="side of the result", unit="px", minimum=1)

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        """Return the sample with an array in place of its file."""
        sample["image"] = prepared(sample.pop("jpg"), rng.random, self.size)
        return sample


class _Draws:
    """Stands for a stage's generator in a plain function: all draws come from one.

    Moving generators from sample to sample is the engine's work, which no plain function has.
    """

    random = random

    def of(self, stage: str) -> _Draws:
        """Return what another stage draws from: the same."""
        return self


def plain(how: str, size: int) -> Callable[[bytes], NDArray[np.uint8]]:
    """Return Stoker's stages as a function: a JPEG file to an array (size, size, 3).

    Args:
        how: by which decoder. decode.jpeg is asked for the part that the crop uses, as the
            plan of a pipeline has it.
        size: side of the result, in pixels.
    """
    from stoker_plugins.augment.crop import RandomResizedCrop
    from stoker_plugins.augment.flip import Flip
    from stoker_plugins.decode.image import Image
    from stoker_plugins.decode.jpeg import Jpeg

    crop, flip = RandomResizedCrop(size), Flip()
    request = Request(crop, crop.name, "image")
    decoder = (Image if how == IMAGE else Jpeg)(request=request)
    draws = cast(Rng, _Draws())

    def function(data: bytes) -> NDArray[np.uint8]:
        sample: Sample = {"jpg": data}
        for stage in (decoder, crop, flip):
            sample = stage.apply(sample, draws)
        picture: NDArray[np.uint8] = sample["image"]
        return picture

    return function


@contextmanager
def stoker(job: Job, how: str) -> Iterator[Epoch]:
    """Yield a pipeline used as a loader, with threads: as many workers as it chooses."""
    from stoker import Pipeline
    from stoker_plugins import augment, collate, decode, read

    stages: tuple[Map, ...] = (Prepare(job.size),)
    if how != PILLOW:
        decoder = decode.Image() if how == IMAGE else decode.Jpeg()
        stages = (decoder, augment.RandomResizedCrop(job.size), augment.Flip())
    pipeline = Pipeline(
        "peers",
        read.Files(job.files, shuffle=True),
        *stages,
        collate.Stack(job.batch_size, drop_last=True),
    )
    with pipeline as loader:

        def epoch(number: int) -> Iterator[Any]:
            return ((batch["image"], batch["cls"]) for batch in loader)

        yield epoch
