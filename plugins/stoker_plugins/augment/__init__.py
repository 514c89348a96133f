"""Augment stages: change decoded samples, at random or not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stoker.lazy import lazy
from stoker.plugins import StageEntry, hookimpl

if TYPE_CHECKING:
    from stoker_plugins.augment.apply import Apply
    from stoker_plugins.augment.crop import CenterCrop, RandomResizedCrop
    from stoker_plugins.augment.erasing import RandomErasing
    from stoker_plugins.augment.flip import Flip
    from stoker_plugins.augment.jitter import ColorJitter
    from stoker_plugins.augment.mixup import Cutmix, Mixup
    from stoker_plugins.augment.normalize import Normalize
    from stoker_plugins.augment.padding import Pad
    from stoker_plugins.augment.randaugment import RandAugment
    from stoker_plugins.augment.random_crop import RandomCrop
    from stoker_plugins.augment.resize import Resize

__all__ = [
    "Apply",
    "CenterCrop",
    "ColorJitter",
    "Cutmix",
    "Flip",
    "Mixup",
    "Normalize",
    "Pad",
    "RandAugment",
    "RandomCrop",
    "RandomErasing",
    "RandomResizedCrop",
    "Resize",
]
__getattr__ = lazy(
    __name__,
    {
        "Apply": "apply",
        "CenterCrop": "crop",
        "ColorJitter": "jitter",
        "Cutmix": "mixup",
        "Flip": "flip",
        "Mixup": "mixup",
        "Normalize": "normalize",
        "Pad": "padding",
        "RandAugment": "randaugment",
        "RandomCrop": "random_crop",
        "RandomErasing": "erasing",
        "RandomResizedCrop": "crop",
        "Resize": "resize",
    },
)

# Name, target and summary of each stage.
_STAGES = (
    ("random_resized_crop", "crop:RandomResizedCrop", "crops a random box and resizes it"),
    ("random_crop", "random_crop:RandomCrop", "cuts out a box of a set size at a random place"),
    ("resize", "resize:Resize", "resizes pictures"),
    ("center_crop", "crop:CenterCrop", "cuts out the centre"),
    ("pad", "padding:Pad", "pads small pictures to a size"),
    ("flip", "flip:Flip", "flips pictures left to right, at random"),
    ("color_jitter", "jitter:ColorJitter", "changes brightness, contrast, saturation and hue"),
    ("random_erasing", "erasing:RandomErasing", "paints over a random box"),
    ("rand_augment", "randaugment:RandAugment", "some of fourteen operations, drawn anew"),
    ("mixup", "mixup:Mixup", "blends pictures and labels of a batch"),
    ("cutmix", "mixup:Cutmix", "pastes boxes between pictures of a batch, with their labels"),
    ("normalize", "normalize:Normalize", "uint8 batches to float32, channels first"),
    ("apply", "apply:Apply", "runs a function of your own"),
)


@hookimpl
def stoker_stages() -> Iterator[StageEntry]:
    """Bring the built-in augmentations."""
    for name, target, summary in _STAGES:
        yield StageEntry(f"augment.{name}", f"{__name__}.{target}", "augment", summary)
