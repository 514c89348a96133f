"""Other light and other colours."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from stoker.errors import describe_given
from stoker.parameters import param
from stoker.rng import Rng
from stoker.sample import Sample
from stoker.stages import Map, Surroundings
from stoker_plugins.augment.colour import (
    Planes,
    brighten,
    change_contrast,
    picture_from,
    planes_of,
    saturate,
    turn_hue,
)
from stoker_plugins.augment.picture import Picture, picture_of

Change = Callable[[Planes, float, float], None]
"""Takes planes, changed in place; an amount; and the greatest value that there is."""


@dataclass(frozen=True)
class ColorJitter(Map):
    """Change brightness, contrast, saturation and hue at random: array (H, W, C) to the same.

    The factors are uniform in [max(0, 1 - x), 1 + x], the hue is turned by up to a share of the
    circle, and the order of the four is drawn too. Pictures are uint8 or uint16. Grey ones have
    no saturation and no hue; an alpha channel stays as it is.
    """

    name: ClassVar[str] = "augment.color_jitter"
    kind: ClassVar[str] = "augment"
    example: ClassVar[str] = "augment.ColorJitter(0.4, 0.4, 0.4, hue=0.1)"

    brightness: float = param(0.0, "x of its factor", minimum=0.0)
    contrast: float = param(0.0, "x of its factor", minimum=0.0)
    saturation: float = param(0.0, "x of its factor", minimum=0.0)
    hue: float = param(0.0, "greatest turn, as a share of the circle", minimum=0.0, maximum=0.5)
    p: float = param(1.0, "share of the pictures that are changed", minimum=0.0, maximum=1.0)
    field: str = param("image", "field that holds the picture")

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield that nothing would be changed."""
        amounts = (self.brightness, self.contrast, self.saturation, self.hue)
        if not any(amounts):
            yield (
                f"brightness, contrast, saturation, hue = {describe_given(amounts)} change "
                "nothing; give at least one of them"
            )

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        """Return the sample with a copy of its picture, in other light.

        Raises:
            TypeError: the picture is no uint8 or uint16, or has more than 4 channels.
        """
        image = picture_of(sample, self.field)
        colours = self._colours(image)
        if rng.random.random() >= self.p:
            return sample
        changes = self._changes(rng, coloured=colours == 3)
        planes, top = planes_of(image, colours), float(np.iinfo(image.dtype).max)
        for change, amount in changes:
            change(planes, amount, top)
        sample[self.field] = picture_from(planes, image)
        return sample

    def _changes(self, rng: Rng, *, coloured: bool) -> list[tuple[Change, float]]:
        """Return what is done, with the amount of each, in the order drawn."""
        draw = rng.random
        factors: list[tuple[Change, float]] = [
            (brighten, self.brightness),
            (change_contrast, self.contrast),
        ]
        if coloured:
            factors.append((saturate, self.saturation))
        changes = [(change, draw.uniform(max(0.0, 1 - x), 1 + x)) for change, x in factors if x]
        if coloured and self.hue:
            changes.append((turn_hue, draw.uniform(-self.hue, self.hue)))
        draw.shuffle(changes)
        return changes

    def _colours(self, image: Picture) -> int:
        """Return how many of a picture's channels are colours: 1 or 3, an alpha left out."""
        channels = image.shape[2]
        if image.dtype not in (np.uint8, np.uint16) or not 1 <= channels <= 4:
            raise TypeError(
                f"{self.name} was given a picture of shape {image.shape} and dtype {image.dtype}; "
                "allowed is uint8 or uint16 with 1 to 4 channels (decode.Image() makes them)"
            )
        return 1 if channels < 3 else 3
