"""From a picture that Pillow opened to its pixels: loaded, upright, cut and converted."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray
from PIL import Image

from stoker.region import Ask, Part
from stoker_plugins.decode.colour import Colour, Mode, array_of, check_kept, converted
from stoker_plugins.decode.exif import turn
from stoker_plugins.decode.opening import said_by


class Wanted(NamedTuple):
    """What is to be made of a picture."""

    mode: Mode
    background: Colour
    fill: bool
    """Of a truncated file give what there is."""
    ask: Ask | None
    """Tells what part of it is used."""


class Decoded(NamedTuple):
    """What became of a picture."""

    array: NDArray[Any]
    """(H, W, C), dense and the caller's own."""
    mode: str
    """That it was stored in, in Pillow's words."""
    part: Part | None
    truncated: bool = False


def pixels_of(image: Image.Image, wanted: Wanted) -> Decoded:
    """Return the pixels of an opened picture.

    Raises:
        ValueError: it cannot be had in the mode that is wanted.
        Exception: each of Pillow's drivers has errors of its own.
    """
    if wanted.mode == "stored":
        check_kept(image)
    truncated = _load(image, wanted.fill)
    stored, upright = image.mode, turn(image)
    part = None
    if upright is None:
        # Cut first, so that no more is converted than is used.
        image, part = _cut(image, wanted.ask)
    if wanted.mode != "stored":
        image = converted(image, wanted.mode, wanted.background)
    if upright is not None:
        image, part = _cut(image.transpose(upright), wanted.ask)
    return Decoded(array_of(image), stored, part, truncated)


def _load(image: Image.Image, fill: bool) -> bool:
    """Decode a picture's pixels; return whether its file ended early.

    Pillow's own switch for such files is one for the whole process. But when it gives up it
    leaves the rows that it has, and taking its plan away makes it content with them.

    Raises:
        ValueError: it is damaged.
    """
    try:
        image.load()
    except MemoryError:
        raise
    except Exception as error:  # each of Pillow's drivers has errors of its own
        there = getattr(image, "_im", None) is not None
        if not (
            fill and there and isinstance(error, OSError) and "truncated" in str(error).lower()
        ):
            raise ValueError(f"damaged {image.format}: {said_by(error)}") from error
        image.tile = []  # type: ignore[attr-defined]
        image.load()
        return True
    return getattr(image, "ended_early", False)


def _cut(image: Image.Image, ask: Ask | None) -> tuple[Image.Image, Part | None]:
    """Return the part of an upright picture that is used, and how it lies to the whole."""
    width, height = image.size
    region = ask(height, width) if ask is not None else None
    if region is None:
        return image, None
    top, left, bottom, right = region.outline()
    bottom, right = min(bottom, height), min(right, width)
    box = (region.top - top, region.left - left, region.height, region.width)
    if (top, left, bottom, right) != (0, 0, height, width):
        info = image.info
        image = image.crop((left, top, right, bottom))
        image.info = info
    return image, Part(region, box, (height, width))
