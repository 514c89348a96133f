"""Crops of a set size at a random place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from stoker.parameters import param
from stoker.region import Region, take_part
from stoker.rng import Rng
from stoker.sample import Sample
from stoker.stages import Map, Surroundings, Use
from stoker_plugins.augment.padding import Mode, mode_faults, padded
from stoker_plugins.augment.picture import height_width, picture_of, size_faults
from stoker_plugins.augment.resample import Box, cut, whole_pixels


@dataclass(frozen=True)
class RandomCrop(Map):
    """Cut out a box of a set size at a random place: array (H, W, C) to (size, size, C).

    With `padding` so many pixels are put on every side before (4 for CIFAR's 32). A picture
    that is still too small lies whole, at a random place, in what is put around it; or it is
    refused.
    """

    name: ClassVar[str] = "augment.random_crop"
    kind: ClassVar[str] = "augment"
    example: ClassVar[str] = "augment.RandomCrop(32, padding=4)"

    size: int | tuple[int, int] = param(
        help="side of the result, or (height, width)", unit="px", minimum=1
    )
    padding: int = param(0, "put on every side before", unit="px", minimum=0)
    pad_if_needed: bool = param(True, "pad what is too small; False: it is an error")
    mode: Mode = param("constant", "what is put there: a value, the edge, or a mirror image")
    value: float | tuple[float, ...] = param(0, "for mode constant; a tuple gives it by channel")
    field: str = param("image", "field that holds the picture")

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield what is wrong with size and mode."""
        yield from size_faults(self.size)
        yield from mode_faults(self.mode, self.value)

    def use_of(self, field: str) -> Use:
        """Return that of its picture a part is used, and of others nothing."""
        return "part" if field == self.field else "none"

    def region(self, field: str, height: int, width: int, rng: Rng) -> Region | None:
        """Return the box that will be drawn, None where something is put on first."""
        high, wide = height_width(self.size)
        if self.padding or height < high or width < wide:
            return None
        return Region(*self._box(height, width, rng))

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        """Return the sample with the crop in place of the picture.

        Raises:
            ValueError: the picture is too small, and is not to be padded; or the padding's
                value is one that it cannot hold.
        """
        image, part = picture_of(sample, self.field), take_part(sample, self.field)
        if part is not None:
            sample[self.field] = cut(image, whole_pixels(part.box))
            return sample
        high, wide = height_width(self.size)
        least = (self._room(image.shape[0], high), self._room(image.shape[1], wide))
        image = padded(
            image, self.padding, least, mode=self.mode, value=self.value, stage=self.name
        )
        height, width = image.shape[:2]
        if height < high or width < wide:
            raise ValueError(
                f"a crop of {high} x {wide} pixels (height x width) was asked of a picture of "
                f"{height} x {width}; set pad_if_needed=True, or make it large enough first"
            )
        sample[self.field] = cut(image, self._box(height, width, rng))
        return sample

    def _room(self, side: int, wanted: int) -> int:
        """Return the length of a side in which a crop can be drawn, in pixels."""
        lacking = max(wanted - side - 2 * self.padding, 0) if self.pad_if_needed else 0
        return wanted + lacking if lacking else 1  # so much on both sides: for each place

    def _box(self, height: int, width: int, rng: Rng) -> Box:
        high, wide = height_width(self.size)
        draw = rng.random
        return Box(draw.randint(0, height - high), draw.randint(0, width - wide), high, wide)
