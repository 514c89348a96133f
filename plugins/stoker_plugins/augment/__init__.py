"""Augment stages: change decoded samples, at random or not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stoker.lazy import lazy
from stoker.plugins import StageEntry, hookimpl

if TYPE_CHECKING:
    from stoker_plugins.augment.apply import Apply
    from stoker_plugins.augment.crop import CenterCrop, RandomResizedCrop
    from stoker_plugins.augment.flip import Flip
    from stoker_plugins.augment.normalize import Normalize
    from stoker_plugins.augment.resize import Resize

__all__ = ["Apply", "CenterCrop", "Flip", "Normalize", "RandomResizedCrop", "Resize"]
__getattr__ = lazy(
    __name__,
    {
        "Apply": "apply",
        "CenterCrop": "crop",
        "Flip": "flip",
        "Normalize": "normalize",
        "RandomResizedCrop": "crop",
        "Resize": "resize",
    },
)


@hookimpl
def stoker_stages() -> Iterator[StageEntry]:
    """Bring the built-in augmentations."""

    def entry(name: str, target: str, summary: str) -> StageEntry:
        return StageEntry(name, f"{__name__}.{target}", "augment", summary)

    yield entry(
        "augment.random_resized_crop",
        "crop:RandomResizedCrop",
        "crops a random box and resizes it",
    )
    yield entry("augment.resize", "resize:Resize", "resizes pictures")
    yield entry("augment.center_crop", "crop:CenterCrop", "cuts out the centre")
    yield entry("augment.flip", "flip:Flip", "flips pictures left to right, at random")
    yield entry(
        "augment.normalize", "normalize:Normalize", "uint8 batches to float32, channels first"
    )
    yield entry("augment.apply", "apply:Apply", "runs a function of your own")
