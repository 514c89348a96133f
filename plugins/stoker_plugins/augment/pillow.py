"""Pictures through operations of Pillow."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import PIL.Image

from stoker_plugins.augment.picture import Picture

Operation = Callable[[PIL.Image.Image], PIL.Image.Image]


def through_pillow(image: Picture, operation: Operation, *, stage: str) -> Picture:
    """Return what an operation makes of a picture, as a dense array of the same channels.

    Args:
        image: array (H, W, C) of uint8, with 1 channel or 3.
        operation: takes and gives an image of mode L or RGB.
        stage: name for messages.

    Raises:
        TypeError: other channels, or no uint8.
    """
    channels = image.shape[2]
    if image.dtype != np.uint8 or channels not in (1, 3):
        raise TypeError(
            f"{stage} was given a picture of shape {image.shape} and dtype {image.dtype}; allowed "
            'is uint8 with 1 or 3 channels (decode.Image(mode="RGB") makes 3)'
        )
    given = image[:, :, 0] if channels == 1 else image
    made = np.array(operation(PIL.Image.fromarray(np.ascontiguousarray(given))))
    return made.reshape(*made.shape[:2], channels)
