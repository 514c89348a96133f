"""Other light and other colours."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import PIL.Image
from PIL.ImageEnhance import Brightness, Color, Contrast

from stoker.errors import describe_given
from stoker.parameters import param
from stoker.rng import Rng
from stoker.sample import Sample
from stoker.stages import Map, Surroundings
from stoker_plugins.augment.picture import picture_of
from stoker_plugins.augment.pillow import Operation, through_pillow


@dataclass(frozen=True)
class ColorJitter(Map):
    """Change brightness, contrast, saturation and hue at random: uint8 (H, W, C) to the same.

    The factors are uniform in [max(0, 1 - x), 1 + x], the hue is turned by up to a share of the
    circle, and the order of the four is drawn too. Grey pictures have no saturation and no hue;
    an alpha channel stays as it is.
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
        """Return the sample with its picture in other light.

        Raises:
            TypeError: the picture is no uint8, or has more than 4 channels.
        """
        image = picture_of(sample, self.field)
        draw = rng.random
        if draw.random() >= self.p:
            return sample
        steps: list[Operation] = []
        coloured = image.shape[2] > 2
        enhancers: list[tuple[Any, float]] = [
            (Brightness, self.brightness),
            (Contrast, self.contrast),
        ]
        if coloured:
            enhancers.append((Color, self.saturation))
        for enhancer, amount in enhancers:
            if amount:
                factor = draw.uniform(max(0.0, 1 - amount), 1 + amount)
                steps.append(partial(_enhanced, enhancer, factor))
        if self.hue and coloured:
            steps.append(partial(turned, draw.uniform(-self.hue, self.hue)))
        draw.shuffle(steps)

        def all_steps(picture: PIL.Image.Image) -> PIL.Image.Image:
            for step in steps:
                picture = step(picture)
            return picture

        sample[self.field] = through_pillow(image, all_steps, stage=self.name, alpha=True)
        return sample


def _enhanced(
    enhancer: Callable[[PIL.Image.Image], Any], factor: float, picture: PIL.Image.Image
) -> PIL.Image.Image:
    made: PIL.Image.Image = enhancer(picture).enhance(factor)
    return made


def turned(share: float, picture: PIL.Image.Image) -> PIL.Image.Image:
    """Return an RGB picture with its hue turned by a share of the circle."""
    hue, saturation, value = picture.convert("HSV").split()
    by = round(share * 256)
    table = [(level + by) % 256 for level in range(256)]
    return PIL.Image.merge("HSV", (hue.point(table), saturation, value)).convert("RGB")
