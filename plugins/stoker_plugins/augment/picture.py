"""What augmentations share: how pictures are taken from samples, and how sizes are given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stoker.errors import describe_given
from stoker.sample import Sample, missing_field

Picture = NDArray[Any]
"""An array (height, width, channels), mostly uint8."""

Size = int | tuple[int, int]
"""A side, or (height, width); in pixels."""

Value = float | tuple[float, ...]
"""What pixels are filled with: a number for all channels, or one for each."""


def picture_of(sample: Sample, field: str) -> Picture:
    """Return the picture in a sample's field.

    Raises:
        KeyError: the field is missing; lists those that are there.
        TypeError: the field holds no array (height, width, channels).
    """
    if field not in sample:
        raise missing_field(field, sample)
    value = sample[field]
    if not isinstance(value, np.ndarray) or value.ndim != 3:
        shape = f" of shape {tuple(value.shape)}" if hasattr(value, "shape") else ""
        raise TypeError(
            f"field {field!r} holds {type(value).__name__}{shape}; allowed is an array "
            "(height, width, channels), as decode.Image() makes"
        )
    return value


def height_width(size: Size) -> tuple[int, int]:
    """Return (height, width) of a size; one number is both."""
    if isinstance(size, int):
        return size, size
    height, width = size
    return height, width


def size_faults(size: Size) -> Iterator[str]:
    """Yield what is wrong with a size, for `Stage.check`."""
    sides = [size] if isinstance(size, int) else list(size)
    if any(side < 1 for side in sides):
        yield f"size={describe_given(size)}: allowed is at least 1 pixel a side"


def range_faults(name: str, bounds: tuple[float, float]) -> Iterator[str]:
    """Yield what is wrong with a (low, high) of positive numbers, for `Stage.check`."""
    low, high = bounds
    if not 0 < low <= high:
        yield f"{name}={describe_given(bounds)}: allowed is (low, high) with 0 < low <= high"


def pixel_of(value: Value, image: Picture, stage: str) -> Picture:
    """Return the values of a pixel, (1,) or (C,), in the dtype of a picture.

    Args:
        value: what the stage was given.
        image: array (H, W, C) that it goes into.
        stage: name for messages.

    Raises:
        ValueError: another number of channels, or values that the dtype does not have.
    """
    values = np.atleast_1d(value)
    kind, channels = image.dtype, image.shape[2]
    if len(values) not in (1, channels):
        wanted = f"one number, or {channels} for the channels"
    elif kind.kind not in "iu":
        return values.astype(kind)
    else:
        limits = np.iinfo(kind)
        if (values == np.rint(values)).all() and (
            limits.min <= values.min() and values.max() <= limits.max
        ):
            return values.astype(kind)
        wanted = f"whole numbers from {limits.min} to {limits.max}"
    raise ValueError(
        f"{stage} was given value={describe_given(value)} for a picture of shape {image.shape} "
        f"and dtype {kind}; allowed is {wanted}"
    )
