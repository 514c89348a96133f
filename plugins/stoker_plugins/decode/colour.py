"""From any of Pillow's modes to 8-bit RGB."""

from __future__ import annotations

from typing import Any

import numpy
from PIL import Image

Colour = tuple[int, int, int]

_WITH_ALPHA = {"RGBA", "LA", "PA", "La", "RGBa"}
_DEEP_GREY = {"I;16", "I;16B", "I;16L", "I;16N"}
# These open 16-bit grey as "I" in some versions, with values up to 65535.
_DEEP_GREY_FORMATS = {"PNG", "PPM"}


def to_rgb(image: Image.Image, background: Colour) -> Image.Image:
    """Return a loaded picture in mode RGB.

    Grey of 16 bits is scaled by 255/65535 and rounded. What is transparent is laid over
    `background`. CMYK is taken as Adobe writes it (0 is full ink) whether or not the
    file says so, and converted by the plain formula, without colour profiles.

    Raises:
        ValueError: 32-bit integers or floats, whose range no file declares.
    """
    mode = image.mode
    transparent = "transparency" in image.info
    if mode == "RGB" and not transparent:
        return image
    if mode in _DEEP_GREY or (mode == "I" and image.format in _DEEP_GREY_FORMATS):
        return _from_deep_grey(image, background)
    if mode in {"I", "F"}:
        raise ValueError(
            f"{image.format} with {'integers' if mode == 'I' else 'floats'} of 32 bits has no "
            "declared range to scale to 8 bits; decode it in a stage of your own"
        )
    if mode in _WITH_ALPHA or transparent:
        return _flatten(image, background)
    return image.convert("RGB")


def _flatten(image: Image.Image, background: Colour) -> Image.Image:
    if image.mode == "La":
        image = image.convert("LA")
    below = Image.new("RGBA", image.size, (*background, 255))
    below.alpha_composite(image.convert("RGBA"))
    return below.convert("RGB")


def _from_deep_grey(image: Image.Image, background: Colour) -> Image.Image:
    deep: Any = numpy.asarray(image).astype(numpy.uint32)
    grey = ((deep * 255 + 32767) // 65535).astype(numpy.uint8)
    colour = numpy.repeat(grey[:, :, None], 3, axis=2)
    clear = image.info.get("transparency")
    if isinstance(clear, int):
        colour[deep == clear] = background
    return Image.fromarray(colour)
