"""Pictures to test with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter


def noise(height: int, width: int, channels: int = 3, seed: int = 0) -> NDArray[np.uint8]:
    """Return a picture in which no two pixels are related."""
    generator = np.random.default_rng(seed)
    return generator.integers(0, 256, (height, width, channels), dtype=np.uint8)


def smooth(height: int, width: int) -> NDArray[np.uint8]:
    """Return an RGB picture without hard edges, as photographs are."""
    blurred = Image.fromarray(noise(height, width)).filter(ImageFilter.GaussianBlur(3))
    return np.array(blurred)


def frozen(image: NDArray[Any]) -> NDArray[Any]:
    """Return the picture as Pillow hands them out: read-only."""
    view = image.view()
    view.flags.writeable = False
    return view
