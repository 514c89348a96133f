"""Horizontal flips."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from stoker.parameters import param
from stoker.rng import Rng
from stoker.sample import Sample
from stoker.stages import Map
from stoker_plugins.arrays import as_tensor
from stoker_plugins.augment.picture import picture_of


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
            sample[self.field] = torch.flip(as_tensor(image), (1,)).contiguous().numpy()
        return sample
