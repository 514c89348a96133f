"""Horizontal flips."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from stoker.parameters import param
from stoker.rng import Rng
from stoker.sample import Sample
from stoker.stages import Map
from stoker_plugins.arrays import as_tensor
from stoker_plugins.augment.picture import Picture, picture_of


@dataclass(frozen=True)
class Flip(Map):
    """Flip a picture left to right with probability p: array (H, W, C) to the same."""

    name: ClassVar[str] = "augment.flip"
    kind: ClassVar[str] = "augment"
    example: ClassVar[str] = "augment.Flip(p=0.5)"

    p: float = param(0.5, "share of the pictures that are flipped", minimum=0.0, maximum=1.0)
    field: str = param("image", "field that holds the picture")

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        """Return the sample, its picture flipped or as it was."""
        image = picture_of(sample, self.field)
        if rng.random.random() < self.p:
            # A NumPy view with a negative stride would cost ten times as much to copy later.
            sample[self.field] = flipped(image)
        return sample


def flipped(image: Picture) -> Picture:
    """Return a picture flipped left to right, dense."""
    unsigned = image.dtype.kind == "u" and image.dtype.itemsize > 1
    # torch flips no unsigned integers but bytes; the bits are what is moved.
    given = image.view(image.dtype.str.replace("u", "i")) if unsigned else image
    made = np.ascontiguousarray(torch.flip(as_tensor(given), (1,)).numpy())
    return made.view(made.dtype.str.replace("i", "u")) if unsigned else made
