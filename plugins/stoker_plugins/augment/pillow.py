"""Pictures through operations of Pillow."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import PIL.Image

from stoker_plugins.augment.picture import Picture

Operation = Callable[[PIL.Image.Image], PIL.Image.Image]


def through_pillow(image: Picture, operation: Operation, *, stage: str, alpha: bool) -> Picture:
    """Return what an operation makes of a picture, as a dense array of the same channels.

    Args:
        image: array (H, W, C) of uint8, with 1 channel or 3; with `alpha` also 2 or 4.
        operation: takes and gives an image of mode L or RGB.
        stage: name for messages.
        alpha: the last of 2 or 4 channels is kept as it is.

    Raises:
        TypeError: other channels, or no uint8.
    """
    channels = image.shape[2]
    allowed = (1, 2, 3, 4) if alpha else (1, 3)
    if image.dtype != np.uint8 or channels not in allowed:
        raise TypeError(
            f"{stage} was given a picture of shape {image.shape} and dtype {image.dtype}; allowed "
            f"is uint8 with {', '.join(map(str, allowed[:-1]))} or {allowed[-1]} channels "
            '(decode.Image(mode="RGB") makes 3)'
        )
    colours = channels - 1 if channels in (2, 4) else channels
    given = image[:, :, 0] if colours == 1 else image[:, :, :colours]
    made = np.array(operation(PIL.Image.fromarray(np.ascontiguousarray(given))))
    made = made.reshape(*made.shape[:2], colours)
    if colours == channels:
        return made
    return np.concatenate([made, image[:, :, colours:]], axis=2)
