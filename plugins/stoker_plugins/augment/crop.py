"""Crops: a random box resized, and the centre."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from stoker.parameters import param
from stoker.region import Region, take_part
from stoker.rng import Rng
from stoker.sample import Sample
from stoker.stages import Map, Surroundings, Use
from stoker_plugins.augment.picture import (
    height_width,
    picture_of,
    range_faults,
    size_faults,
)
from stoker_plugins.augment.resample import Box, cut, resize, resize_part, whole_pixels

_TRIES = 10


def draw_box(
    height: int,
    width: int,
    rng: Rng,
    scale: tuple[float, float] = (0.08, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
) -> Box:
    """Return a random box, by the sampling rule that torchvision publishes.

    The area's share is uniform in `scale`, the aspect log-uniform in `ratio`; after
    ten boxes that do not fit it is the largest central one whose aspect is allowed.
    It depends on the picture's size only, so it can be drawn before decoding.

    Args:
        height: of the picture, in pixels.
        width: of the picture, in pixels.
        rng: where the draws come from.
        scale: (least, greatest) share of the picture's area.
        ratio: (least, greatest) width over height.
    """
    draw = rng.random
    low, high = math.log(ratio[0]), math.log(ratio[1])
    for _ in range(_TRIES):
        area = height * width * draw.uniform(*scale)
        aspect = math.exp(draw.uniform(low, high))
        box_width = round(math.sqrt(area * aspect))
        box_height = round(math.sqrt(area / aspect))
        if 0 < box_width <= width and 0 < box_height <= height:
            top = draw.randint(0, height - box_height)
            left = draw.randint(0, width - box_width)
            return Box(top, left, box_height, box_width)
    box_height, box_width = height, width
    if width / height < ratio[0]:
        box_height = max(1, min(height, round(width / ratio[0])))
    elif width / height > ratio[1]:
        box_width = max(1, min(width, round(height * ratio[1])))
    return Box((height - box_height) // 2, (width - box_width) // 2, box_height, box_width)


@dataclass(frozen=True)
class RandomResizedCrop(Map):
    """Crop a random box and resize it: array (H, W, C) to (size, size, C)."""

    name: ClassVar[str] = "augment.random_resized_crop"
    kind: ClassVar[str] = "augment"
    example: ClassVar[str] = "augment.RandomResizedCrop(224)"

    size: int | tuple[int, int] = param(
        help="side of the result, or (height, width)", unit="px", minimum=1
    )
    scale: tuple[float, float] = param((0.08, 1.0), "share of the area that the box covers")
    ratio: tuple[float, float] = param((3 / 4, 4 / 3), "width over height of the box")
    antialias: bool = param(True, "average over source pixels when shrinking")
    field: str = param("image", "field that holds the picture")

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield what is wrong with size, scale and ratio."""
        yield from size_faults(self.size)
        yield from range_faults("scale", self.scale)
        yield from range_faults("ratio", self.ratio)

    def use_of(self, field: str) -> Use:
        """Return that of its picture a part is used, and of others nothing."""
        return "part" if field == self.field else "none"

    def region(self, field: str, height: int, width: int, rng: Rng) -> Region:
        """Return the box that will be drawn; it may come scaled down if it is averaged anyway."""
        box = draw_box(height, width, rng, self.scale, self.ratio)
        return Region(*box, height_width(self.size) if self.antialias else None)

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        """Return the sample with the crop in place of the picture."""
        image, part = picture_of(sample, self.field), take_part(sample, self.field)
        size = height_width(self.size)
        if part is None:
            box = draw_box(image.shape[0], image.shape[1], rng, self.scale, self.ratio)
            sample[self.field] = resize(image, box, size, antialias=self.antialias)
        else:
            sample[self.field] = resize_part(image, part, size, antialias=self.antialias)
        return sample


@dataclass(frozen=True)
class CenterCrop(Map):
    """Cut out the centre: array (H, W, C) to (size, size, C)."""

    name: ClassVar[str] = "augment.center_crop"
    kind: ClassVar[str] = "augment"
    deterministic: ClassVar[bool] = True
    example: ClassVar[str] = "augment.CenterCrop(224)"

    size: int | tuple[int, int] = param(
        help="side of the result, or (height, width)", unit="px", minimum=1
    )
    field: str = param("image", "field that holds the picture")

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield what is wrong with the size."""
        return size_faults(self.size)

    def use_of(self, field: str) -> Use:
        """Return that of its picture a part is used, and of others nothing."""
        return "part" if field == self.field else "none"

    def region(self, field: str, height: int, width: int, rng: Rng) -> Region | None:
        """Return the centre, None where the picture is too small for it."""
        box = self._box(height, width)
        return Region(*box) if box.top >= 0 and box.left >= 0 else None

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        """Return the sample with its centre in place of the picture.

        Raises:
            ValueError: the picture is smaller than the crop.
        """
        image, part = picture_of(sample, self.field), take_part(sample, self.field)
        if part is not None:
            sample[self.field] = cut(image, whole_pixels(part.box))
            return sample
        height, width = image.shape[:2]
        crop_height, crop_width = height_width(self.size)
        if crop_height > height or crop_width > width:
            raise ValueError(
                f"a centre of {crop_height} x {crop_width} pixels (height x width) was asked of "
                f"a picture of {height} x {width}; make it large enough first, with "
                f"augment.Resize({max(crop_height, crop_width)})"
            )
        sample[self.field] = cut(image, self._box(height, width))
        return sample

    def _box(self, height: int, width: int) -> Box:
        crop_height, crop_width = height_width(self.size)
        # Rounded as torchvision does, so that evaluations agree to the pixel.
        top, left = round((height - crop_height) / 2), round((width - crop_width) / 2)
        return Box(top, left, crop_height, crop_width)
