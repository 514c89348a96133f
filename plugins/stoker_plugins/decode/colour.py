"""From any of Pillow's modes to the one that is asked for, as arrays (H, W, C)."""

from __future__ import annotations

from typing import Any, Literal

import numpy
from numpy.typing import NDArray
from PIL import Image

Colour = tuple[int, int, int]
Mode = Literal["RGB", "RGBA", "L", "stored"]

_WITH_ALPHA = {"RGBA", "LA", "PA", "La", "RGBa"}
_DEEP_GREY = {"I;16", "I;16B", "I;16L", "I;16N"}
# These open 16-bit grey as "I" in some versions, with values up to 65535.
_DEEP_GREY_FORMATS = {"PNG", "PPM"}


def converted(image: Image.Image, mode: Mode, background: Colour) -> Image.Image:
    """Return a loaded picture of 8 bits in a mode other than "stored".

    Grey of 16 bits is scaled by 255/65535 and rounded. What is transparent is laid over
    `background`, unless RGBA keeps it. CMYK is taken as Adobe writes it (0 is full ink)
    whether or not the file says so, and converted by the plain formula, without colour
    profiles.

    Raises:
        ValueError: 32-bit integers or floats, whose range no file declares.
    """
    stored = image.mode
    transparent = "transparency" in image.info
    if stored == mode and not transparent:
        return image
    if _is_deep_grey(image):
        return _from_deep_grey(image, mode, background)
    if stored in {"I", "F"}:
        raise ValueError(
            f"{image.format} with {'integers' if stored == 'I' else 'floats'} of 32 bits has no "
            'declared range to scale to 8 bits; keep it with mode="stored"'
        )
    if stored in _WITH_ALPHA or transparent:
        if stored == "La":
            image = image.convert("LA")
        image = image.convert("RGBA")
        return image if mode == "RGBA" else _over(image, background).convert(mode)
    if stored not in {"1", "L", "RGB", "P"} and mode == "L":
        image = image.convert("RGB")
    return image.convert(mode)


def array_of(image: Image.Image) -> NDArray[Any]:
    """Return a picture's pixels as they are stored: (H, W, C) of uint8, uint16, int32 or float32.

    Of a palette the indices, of one bit 0 and 255.

    Raises:
        ValueError: colour of 16 bits, of which Pillow keeps 8.
    """
    deep = _is_deep_grey(image)
    if image.mode == "1":
        image = image.convert("L")
    pixels = numpy.array(image)
    if deep:
        pixels = pixels.astype(numpy.uint16)  # native byte order too
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def check_kept(image: Image.Image) -> None:
    """Raise ValueError for what is asked for as stored, and what Pillow would not give so.

    To be called before loading: it is the reader's plan that says so.
    """
    for tile in getattr(image, "tile", ()):
        raw = tile[3] if isinstance(tile[3], str) else (tile[3] or ("",))[0]
        if ";16" in str(raw) and image.mode not in _DEEP_GREY | {"I"}:
            raise ValueError(
                f"{image.format} with {image.mode} of 16 bits, of which Pillow keeps 8: it cannot "
                'be had with mode="stored"; decode it in a stage of your own'
            )


def _is_deep_grey(image: Image.Image) -> bool:
    return image.mode in _DEEP_GREY or (image.mode == "I" and image.format in _DEEP_GREY_FORMATS)


def _over(image: Image.Image, background: Colour) -> Image.Image:
    below = Image.new("RGBA", image.size, (*background, 255))
    below.alpha_composite(image)
    return below.convert("RGB")


def _from_deep_grey(image: Image.Image, mode: Mode, background: Colour) -> Image.Image:
    deep: Any = numpy.asarray(image).astype(numpy.uint32)
    grey = ((deep * 255 + 32767) // 65535).astype(numpy.uint8)
    clear = image.info.get("transparency")
    seen = deep == clear if isinstance(clear, int) else None
    if mode == "RGBA":
        alpha = numpy.full_like(grey, 255)
        if seen is not None:
            alpha[seen] = 0
        return Image.fromarray(numpy.stack([grey, grey, grey, alpha], axis=2))
    if seen is None:
        grown = Image.fromarray(grey)
        return grown if mode == "L" else Image.merge("RGB", (grown, grown, grown))
    colour = numpy.repeat(grey[:, :, None], 3, axis=2)
    colour[seen] = background
    return Image.fromarray(colour).convert(mode)
