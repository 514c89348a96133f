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
from stoker_plugins.augment.picture import (
    Picture,
    Value,
    height_width,
    picture_of,
    pixel_of,
    size_faults,
)

Mode = Literal["constant", "edge", "reflect"]


def padded(
    image: Picture,
    padding: int,
    least: tuple[int, int],
    *,
    mode: Mode,
    value: Value,
    stage: str,
) -> Picture:
    """Return a picture with a border, dense; the picture itself where it needs none.

    Args:
        image: array (H, W, C).
        padding: pixels that are put on every side.
        least: (height, width) that it has at least, in pixels; what lacks after `padding` is put
            on evenly, an odd pixel at the bottom and the right.
        mode: "constant" puts the value there, "edge" the outermost pixels, "reflect" mirrors.
        value: one for all channels, or one for each.
        stage: name for messages.

    Raises:
        ValueError: a value that the picture cannot hold.
    """
    height, width, channels = image.shape
    lacking = [max(least[axis] - image.shape[axis] - 2 * padding, 0) for axis in (0, 1)]
    top, left = (padding + lack // 2 for lack in lacking)
    out_height, out_width = (image.shape[axis] + 2 * padding + lacking[axis] for axis in (0, 1))
    if (out_height, out_width) == (height, width):
        return np.ascontiguousarray(image)
    if mode != "constant":
        border = ((top, out_height - height - top), (left, out_width - width - left), (0, 0))
        return np.pad(image, border, mode=mode)
    out = np.empty((out_height, out_width, channels), image.dtype)
    pixel = pixel_of(value, image, stage)
    # The border alone, in four bands: the picture's own pixels are written once.
    out[:top] = out[top + height :] = pixel
    out[top : top + height, :left] = out[top : top + height, left + width :] = pixel
    out[top : top + height, left : left + width] = image
    return out


def mode_faults(mode: Mode, value: Value) -> Iterator[str]:
    """Yield what is wrong with mode and value, for `Stage.check`."""
    if mode != "constant" and value != 0:
        yield f'value={describe_given(value)} has no meaning with mode="{mode}"; leave it out'


@dataclass(frozen=True)
class Pad(Map):
    """Pad pictures to at least a size, or by so many pixels: array (H, W, C) to a larger one.

    With `size` what lacks is put on evenly, and larger pictures stay as they are; with `padding`
    every side gets so many pixels. With both, `padding` comes first.
    """

    name: ClassVar[str] = "augment.pad"
    kind: ClassVar[str] = "augment"
    deterministic: ClassVar[bool] = True
    example: ClassVar[str] = "augment.Pad(256)"

    size: int | tuple[int, int] | None = param(
        None, "least side of the result, or (height, width)", unit="px", minimum=1
    )
    padding: int = param(0, "put on every side", unit="px", minimum=0)
    mode: Mode = param("constant", "what is put there: a value, the edge, or a mirror image")
    value: float | tuple[float, ...] = param(0, "for mode constant; a tuple gives it by channel")
    field: str = param("image", "field that holds the picture")

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield what is wrong with size, padding and mode."""
        if self.size is not None:
            yield from size_faults(self.size)
        elif not self.padding:
            yield "size=None and padding=0 pad nothing; give at least one of them"
        yield from mode_faults(self.mode, self.value)

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        """Return the sample with its picture padded.

        Raises:
            ValueError: a value that the picture cannot hold.
        """
        sample[self.field] = padded(
            picture_of(sample, self.field),
            self.padding,
            height_width(self.size or 1),
            mode=self.mode,
            value=self.value,
            stage=self.name,
        )
        return sample
