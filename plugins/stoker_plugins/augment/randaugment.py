"""RandAugment: a few of fourteen operations, drawn anew for each picture.

Cubuk, Zoph, Shlens and Le, "RandAugment: Practical automated data augmentation with a reduced
search space" (2019, arXiv 1909.13719), with the ranges that torchvision documents for it. With
s from 0 to 1, magnitude / (num_magnitude_bins - 1), and a sign that is drawn where +- stands:

- shear_x, shear_y: by +-0.3 s, about the top left corner, as the paper's own code
- translate_x, translate_y: by +-150/331 s of the width, or of the height
- rotate: by +-30 s degrees
- brightness, color, contrast, sharpness: factor 1 +- 0.9 s
- posterize: keeps 8 - round(4 s) bits
- solarize: inverts what is at least 256 (1 - s)
- identity, autocontrast, equalize: have no strength
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

import PIL.Image
from PIL import ImageEnhance, ImageOps

from stoker.errors import describe_given
from stoker.parameters import param
from stoker.rng import Rng
from stoker.sample import Sample
from stoker.stages import Map, Surroundings
from stoker_plugins.augment.picture import Picture, picture_of
from stoker_plugins.augment.pillow import through_pillow

Fill = int | tuple[int, ...]
Painter = Callable[[PIL.Image.Image, float, Fill], PIL.Image.Image]
"""Takes a picture, a strength from -1 to 1 (0 to 1 where it has no sign), and a fill."""


@dataclass(frozen=True)
class RandAugment(Map):
    """Put some of fourteen operations on a picture: uint8 (H, W, 1 or 3) to the same."""

    name: ClassVar[str] = "augment.rand_augment"
    kind: ClassVar[str] = "augment"
    example: ClassVar[str] = "augment.RandAugment(num_ops=2, magnitude=9)"

    num_ops: int = param(2, "operations put on each picture", minimum=0)
    magnitude: int = param(9, "their strength, from 0 to num_magnitude_bins - 1", minimum=0)
    num_magnitude_bins: int = param(31, "levels of strength", minimum=2)
    fill: int | tuple[int, ...] = param(
        0, "what comes in from outside; a tuple: by channel", minimum=0, maximum=255
    )
    field: str = param("image", "field that holds the picture")

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield what is wrong with the magnitude."""
        if self.magnitude >= self.num_magnitude_bins:
            yield (
                f"magnitude={self.magnitude} with num_magnitude_bins={self.num_magnitude_bins}: "
                f"allowed is 0 to {self.num_magnitude_bins - 1}"
            )

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        """Return the sample with the operations put on its picture.

        Raises:
            TypeError: the picture is no uint8 of 1 or 3 channels.
            ValueError: the fill is for another number of channels.
        """
        image, draw = picture_of(sample, self.field), rng.random
        fill = self._fill(image)
        strength = self.magnitude / (self.num_magnitude_bins - 1)
        chosen = [
            (OPERATIONS[draw.choice(_NAMES)], draw.choice((-1, 1))) for _ in range(self.num_ops)
        ]

        def painted(picture: PIL.Image.Image) -> PIL.Image.Image:
            for (paint, signed), sign in chosen:
                picture = paint(picture, sign * strength if signed else strength, fill)
            return picture

        if chosen:
            sample[self.field] = through_pillow(image, painted, stage=self.name)
        return sample

    def _fill(self, image: Picture) -> Fill:
        """Return the fill as Pillow wants it for a picture: a tuple, for grey a number."""
        channels = image.shape[2]
        fill = (self.fill,) * channels if isinstance(self.fill, int) else tuple(self.fill)
        if len(fill) != channels:
            raise ValueError(
                f"{self.name} was given fill={describe_given(self.fill)} for a picture of shape "
                f"{image.shape}; allowed is one number, or {channels} for the channels"
            )
        return fill if channels > 1 else fill[0]


def _affine(x: tuple[float, float, float], y: tuple[float, float, float]) -> Painter:
    """Return a painter that takes each pixel from where the strength times this tells.

    Args:
        x: share of the column, share of the row, and share of the width that is added.
        y: the same for the row, of the height.
    """

    def paint(picture: PIL.Image.Image, strength: float, fill: Fill) -> PIL.Image.Image:
        width, height = picture.size
        data = (
            1 + strength * x[0],
            strength * x[1],
            strength * x[2] * width,
            strength * y[0],
            1 + strength * y[1],
            strength * y[2] * height,
        )
        return picture.transform(picture.size, PIL.Image.Transform.AFFINE, data, fillcolor=fill)

    return paint


def _rotated(picture: PIL.Image.Image, strength: float, fill: Fill) -> PIL.Image.Image:
    return picture.rotate(30 * strength, fillcolor=fill)


def _enhanced(enhancer: Callable[[PIL.Image.Image], ImageEnhance._Enhance]) -> Painter:
    def paint(picture: PIL.Image.Image, strength: float, fill: Fill) -> PIL.Image.Image:
        return enhancer(picture).enhance(1 + 0.9 * strength)

    return paint


OPERATIONS: dict[str, tuple[Painter, bool]] = {
    "identity": (lambda picture, strength, fill: picture, False),
    "shear_x": (_affine((0, 0.3, 0), (0, 0, 0)), True),
    "shear_y": (_affine((0, 0, 0), (0.3, 0, 0)), True),
    "translate_x": (_affine((0, 0, 150 / 331), (0, 0, 0)), True),
    "translate_y": (_affine((0, 0, 0), (0, 0, 150 / 331)), True),
    "rotate": (_rotated, True),
    "brightness": (_enhanced(ImageEnhance.Brightness), True),
    "color": (_enhanced(ImageEnhance.Color), True),
    "contrast": (_enhanced(ImageEnhance.Contrast), True),
    "sharpness": (_enhanced(ImageEnhance.Sharpness), True),
    "posterize": (
        lambda picture, strength, fill: ImageOps.posterize(picture, 8 - round(4 * strength)),
        False,
    ),
    # From 256, above all values, so that no strength changes nothing.
    "solarize": (
        lambda picture, strength, fill: ImageOps.solarize(picture, round(256 * (1 - strength))),
        False,
    ),
    "autocontrast": (lambda picture, strength, fill: ImageOps.autocontrast(picture), False),
    "equalize": (lambda picture, strength, fill: ImageOps.equalize(picture), False),
}
"""Each operation by name, and whether its strength has a sign, which is drawn."""

_NAMES = tuple(OPERATIONS)
