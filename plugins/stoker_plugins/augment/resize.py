"""Resizing of whole pictures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from stoker.parameters import param
from stoker.region import Region, take_part
from stoker.rng import Rng
from stoker.sample import Sample
from stoker.stages import Map, Surroundings, Use
from stoker_plugins.augment.picture import Size, height_width, picture_of, size_faults
from stoker_plugins.augment.resample import Box, resize, resize_part


def resized_shape(height: int, width: int, size: Size) -> tuple[int, int]:
    """Return the (height, width) that a picture gets; one number sets its shorter side."""
    if not isinstance(size, int):
        return height_width(size)
    short, long = min(height, width), max(height, width)
    longer = size * long // short
    return (size, longer) if height <= width else (longer, size)


@dataclass(frozen=True)
class Resize(Map):
    """Resize a picture bilinearly: array (H, W, C) to (height, width, C)."""

    name: ClassVar[str] = "augment.resize"
    kind: ClassVar[str] = "augment"
    deterministic: ClassVar[bool] = True
    example: ClassVar[str] = "augment.Resize(256)"

    size: int | tuple[int, int] = param(
        help="shorter side, the aspect is kept; or exact (height, width)", unit="px", minimum=1
    )
    antialias: bool = param(True, "average over source pixels when shrinking")
    field: str = param("image", "field that holds the picture")

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield what is wrong with the size."""
        return size_faults(self.size)

    def use_of(self, field: str) -> Use:
        """Return that of its picture less than all pixels may do, and of others nothing."""
        return "part" if field == self.field else "none"

    def region(self, field: str, height: int, width: int, rng: Rng) -> Region:
        """Return all of the picture, which may come scaled down if it is averaged anyway."""
        least = resized_shape(height, width, self.size) if self.antialias else None
        return Region(0, 0, height, width, least)

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        """Return the sample with its picture resized."""
        image, part = picture_of(sample, self.field), take_part(sample, self.field)
        if part is not None:
            shape = resized_shape(*part.whole, self.size)
            sample[self.field] = resize_part(image, part, shape, antialias=self.antialias)
            return sample
        height, width = image.shape[:2]
        shape = resized_shape(height, width, self.size)
        whole = Box(0, 0, height, width)
        sample[self.field] = resize(image, whole, shape, antialias=self.antialias)
        return sample
