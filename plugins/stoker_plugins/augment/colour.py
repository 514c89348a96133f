"""Light and colour of pictures, changed plane by plane.

NumPy on whole planes lets go of the GIL and gives the same with any number of threads; with the
colours innermost each loop would be three values long.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stoker_plugins.augment.picture import Picture

Planes = NDArray[np.float32]
"""Pictures as (C, H, W), with 1 colour or 3, of values from 0 to the greatest of their dtype."""

_LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601, as Pillow and torchvision weigh


def planes_of(image: Picture, colours: int) -> Planes:
    """Return the first channels of a picture as planes of their own memory."""
    return np.ascontiguousarray(image[:, :, :colours].transpose(2, 0, 1)).astype(np.float32)


def picture_from(planes: Planes, like: Picture) -> Picture:
    """Return planes as a dense picture, rounded; channels beyond them are those of `like`."""
    np.rint(planes, out=planes)
    made = np.empty(like.shape, like.dtype)
    for channel, plane in enumerate(planes):
        made[:, :, channel] = plane
    made[:, :, len(planes) :] = like[:, :, len(planes) :]
    return made


def brighten(planes: Planes, factor: float, top: float) -> None:
    """Multiply all values, in place. 0 gives black."""
    planes *= factor
    np.clip(planes, 0, top, out=planes)


def change_contrast(planes: Planes, factor: float, top: float) -> None:
    """Multiply the distances from the mean grey, in place. 0 gives an even grey."""
    # Sums of whole numbers are exact, in whatever order they are added up.
    mean = float(np.rint(_grey(planes)).mean(dtype=np.float64))
    _blend(planes, mean, factor, top)


def saturate(planes: Planes, factor: float, top: float) -> None:
    """Multiply the distances from each pixel's own grey, in place. 0 gives a grey picture."""
    _blend(planes, _grey(planes), factor, top)


def turn_hue(planes: Planes, share: float, top: float) -> None:
    """Turn the hue of three planes by a share of the circle, in place.

    By the HSV hexcone (Smith, "Color Gamut Transform Pairs", 1978): with the hue h in sixths,
    each colour is value - chroma * wave(h + n), n = 5, 3, 1 for red, green, blue.
    """
    red, green, blue = planes
    value = np.maximum(np.maximum(red, green), blue)
    chroma = value - np.minimum(np.minimum(red, green), blue)
    hue = np.where(value == green, blue - red + 2 * chroma, red - green + 4 * chroma)
    hue = np.where(value == red, green - blue, hue)
    hue /= np.maximum(chroma, 1e-6)  # -1 to 5; grey has none, and needs none
    for plane, corner in zip(planes, (5, 3, 1), strict=True):
        # The wave is 1 within a sixth of 2 (or 8, a whole turn on), 0 from two sixths on.
        wave = hue + (corner + 6 * share) % 6  # -1 to 11
        for centre in (5, 3):
            wave -= centre
            np.abs(wave, out=wave)
        np.subtract(2, wave, out=wave)
        np.clip(wave, 0, 1, out=wave)
        wave *= chroma
        np.subtract(value, wave, out=plane)


def _blend(planes: Planes, other: Any, factor: float, top: float) -> None:
    """Move planes away from another picture (or to it, by factors below 1), in place."""
    planes -= other
    planes *= factor
    planes += other
    np.clip(planes, 0, top, out=planes)


def _grey(planes: Planes) -> Planes:
    weights = _LUMA if len(planes) == 3 else (1.0,)
    grey: Planes = planes[0] * weights[0]
    for plane, weight in zip(planes[1:], weights[1:], strict=True):
        grey += plane * weight
    return grey
