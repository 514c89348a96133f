"""Resizing of one box of a picture.

torch's uint8 kernel is used, not Pillow: both make the same picture (within two
grey values at the box's edge), at a quarter of the CPU time, and torch needs no
unpacked copy of the whole picture.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import PIL.Image
import torch
from torch.nn.functional import interpolate

from stoker.region import Part
from stoker_plugins.arrays import as_tensor
from stoker_plugins.augment.picture import Picture

_DIRECT = {"uint8", "float32", "float64"}
_BY_FLOAT = {"int8", "int16", "uint16", "float16"}  # float32 holds all their values exactly


class Box(NamedTuple):
    """A part of a picture, in pixels."""

    top: int
    left: int
    height: int
    width: int


def cut(image: Picture, box: Box) -> Picture:
    """Return a dense copy of a box of a picture; the picture itself where it is all of it."""
    if box == (0, 0, *image.shape[:2]) and image.flags.c_contiguous:
        return image
    part = as_tensor(image)[box.top : box.top + box.height, box.left : box.left + box.width]
    # A view would hold on to the whole picture, and let writes through to a cached one.
    return part.clone(memory_format=torch.contiguous_format).numpy()


def whole_pixels(box: tuple[float, float, float, float]) -> Box:
    """Return a box that lies on whole pixels."""
    return Box(*map(round, box))


def resize_part(
    image: Picture, part: Part, size: tuple[int, int], *, antialias: bool = True
) -> Picture:
    """Return the region that a decoder gave a part for, resized bilinearly.

    Args:
        image: array (H, W, C) that holds the region.
        part: where it lies in the array; of a picture decoded at a lower scale that is
            between pixels, and moving it to whole ones would shift the result.
        size: (height, width) of the result, in pixels.
        antialias: average over source pixels when shrinking.
    """
    if not any(side % 1 for side in part.box):
        return resize(image, whole_pixels(part.box), size, antialias=antialias)
    top, left, height, width = part.box
    channels = image.shape[2]
    picture = PIL.Image.fromarray(image[:, :, 0] if channels == 1 else image)
    edges = (left, top, min(left + width, image.shape[1]), min(top + height, image.shape[0]))
    resized = picture.resize((size[1], size[0]), PIL.Image.Resampling.BILINEAR, box=edges)
    return np.array(resized).reshape(*size, channels)


def resize(image: Picture, box: Box, size: tuple[int, int], *, antialias: bool = True) -> Picture:
    """Return a box of a picture, resized bilinearly.

    Args:
        image: array (H, W, C) of uint8, int8, int16, uint16 or floats.
        box: which part, in pixels.
        size: (height, width) of the result, in pixels.
        antialias: average over source pixels when shrinking.

    Returns:
        A dense array (height, width, C) of the same dtype.

    Raises:
        TypeError: a dtype that has no in-between values.
    """
    if (box.height, box.width) == size:
        return cut(image, box)
    kind = image.dtype.name
    if kind not in _DIRECT | _BY_FLOAT:
        raise TypeError(
            f"a picture of dtype {kind} cannot be resized; allowed are "
            f"{', '.join(sorted(_DIRECT | _BY_FLOAT))}"
        )
    # Views are made by NumPy: torch lets go of the GIL for each, which costs more than the view.
    # The batch axis goes in first: only so does torch see channels-last and keep it.
    part = image[box.top : box.top + box.height, box.left : box.left + box.width]
    batch = as_tensor(part.reshape(1, *part.shape).transpose(0, 3, 1, 2))  # (1, C, H, W)
    if kind in _BY_FLOAT:
        batch = batch.to(torch.float32)
    resized = interpolate(
        batch, size=size, mode="bilinear", antialias=antialias, align_corners=False
    )
    result: Picture = np.ascontiguousarray(resized.numpy()[0].transpose(1, 2, 0))  # (h, w, C)
    if kind not in _BY_FLOAT:
        return result
    if image.dtype.kind == "f":
        return result.astype(image.dtype)
    return np.rint(result).astype(image.dtype)  # between values of the picture: in range
