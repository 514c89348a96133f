"""Random erasing."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from stoker.parameters import param
from stoker.rng import Rng
from stoker.sample import Sample
from stoker.stages import Map, Surroundings
from stoker_plugins.augment.picture import Picture, picture_of, pixel_of, range_faults

_TRIES = 10


@dataclass(frozen=True)
class RandomErasing(Map):
    """Paint over a random box of a picture: array (H, W, C) to the same.

    By the rule of Zhong et al., "Random Erasing Data Augmentation" (2017): the box's share of
    the area is uniform, its aspect log-uniform; after ten boxes that do not fit there is none.
    """

    name: ClassVar[str] = "augment.random_erasing"
    kind: ClassVar[str] = "augment"
    example: ClassVar[str] = "augment.RandomErasing(p=0.25)"

    p: float = param(0.5, "share of the pictures that lose a box", minimum=0.0, maximum=1.0)
    scale: tuple[float, float] = param((0.02, 0.33), "share of the area that the box covers")
    ratio: tuple[float, float] = param((0.3, 3.3), "height over width of the box")
    value: float | tuple[float, ...] | Literal["random"] = param(
        0, 'what is painted; a tuple gives it by channel; "random": each pixel its own'
    )
    field: str = param("image", "field that holds the picture")

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield what is wrong with scale and ratio."""
        yield from range_faults("scale", self.scale)
        yield from range_faults("ratio", self.ratio)

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        """Return the sample with a copy of its picture, a box painted over.

        Raises:
            ValueError: a value that the picture cannot hold.
        """
        image = picture_of(sample, self.field)
        if rng.random.random() >= self.p:
            return sample
        box = self._box(image.shape[0], image.shape[1], rng)
        if box is not None:
            top, left, height, width = box
            image = image.copy()  # others may hold it too
            shape = (height, width, image.shape[2])
            image[top : top + height, left : left + width] = self._paint(image, shape, rng)
            sample[self.field] = image
        return sample

    def _box(self, height: int, width: int, rng: Rng) -> tuple[int, int, int, int] | None:
        draw = rng.random
        low, high = math.log(self.ratio[0]), math.log(self.ratio[1])
        for _ in range(_TRIES):
            area = height * width * draw.uniform(*self.scale)
            aspect = math.exp(draw.uniform(low, high))
            box_height, box_width = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if 0 < box_height < height and 0 < box_width < width:
                top = draw.randint(0, height - box_height)
                return top, draw.randint(0, width - box_width), box_height, box_width
        return None

    def _paint(self, image: Picture, shape: tuple[int, ...], rng: Rng) -> Any:
        if self.value != "random":
            return pixel_of(self.value, image, self.name)
        if image.dtype.kind == "f":
            return rng.numpy.standard_normal(shape)
        limits = np.iinfo(image.dtype)
        return rng.numpy.integers(limits.min, limits.max, shape, image.dtype, endpoint=True)
