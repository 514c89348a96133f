"""Padding: making small pictures large enough."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from stoker.errors import describe_given
from stoker.parameters import param
from stoker.rng import Rng
from stoker.sample import Sample
from stoker.stages import Map, Surroundings
from stoker_plugins.augment.picture import Picture, height_width, picture_of, size_faults

Mode = Literal["constant", "edge", "reflect"]
Value = float | tuple[float, ...]


def padded(
    image: Picture, top: int, left: int, bottom: int, right: int, mode: Mode, value: Value
) -> Picture:
    """Return a picture with so many pixels more on each side, dense; itself where there are none.

    Args:
        image: array (H, W, C).
        top, left, bottom, right: pixels to put on.
        mode: "constant" puts the value there, "edge" the outermost pixels, "reflect" mirrors.
        value: one for all channels, or one for each.
    """
    if not (top or left or bottom or right):
        return image
    if mode != "constant":
        return np.pad(image, ((top, bottom), (left, right), (0, 0)), mode=mode)
    height, width, channels = image.shape
    out = np.empty((height + top + bottom, width + left + right, channels), image.dtype)
    out[...] = np.asarray(value, image.dtype)
    out[top : top + height, left : left + width] = image
    return out


def mode_faults(mode: Mode, value: Value) -> Iterator[str]:
    """Yield what is wrong with mode and value, for `Stage.check`."""
    if mode != "constant" and value != 0:
        yield f'value={describe_given(value)} has no meaning with mode="{mode}"; leave it out'


@dataclass(frozen=True)
class Pad(Map):
    """Pad a picture that is smaller than a size, evenly on both sides: (H, W, C) to at least it.

    Larger pictures stay as they are.
    """

    name: ClassVar[str] = "augment.pad"
    kind: ClassVar[str] = "augment"
    deterministic: ClassVar[bool] = True
    example: ClassVar[str] = "augment.Pad(256)"

    size: int | tuple[int, int] = param(
        help="least side of the result, or (height, width)", unit="px", minimum=1
    )
    mode: Mode = param("constant", "what is put there: a value, the edge, or a mirror image")
    value: float | tuple[float, ...] = param(0, "for mode constant; a tuple gives it by channel")
    field: str = param("image", "field that holds the picture")

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield what is wrong with size and mode."""
        yield from size_faults(self.size)
        yield from mode_faults(self.mode, self.value)

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        """Return the sample with its picture padded."""
        sample[self.field] = padded_to(
            picture_of(sample, self.field), height_width(self.size), self.mode, self.value
        )
        return sample


def padded_to(image: Picture, size: tuple[int, int], mode: Mode, value: Value) -> Picture:
    """Return a picture of at least a size (height, width), padded evenly."""
    high, wide = (max(size[d] - image.shape[d], 0) for d in (0, 1))
    top, left = high // 2, wide // 2
    return padded(image, top, left, high - top, wide - left, mode, value)
