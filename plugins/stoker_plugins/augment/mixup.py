"""Mixup and cutmix: each picture of a batch with another one of it, and labels to suit."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch.nn.functional import one_hot

from stoker.errors import describe_given
from stoker.parameters import param
from stoker.rng import Rng
from stoker.sample import Batch, missing_field
from stoker.stages import BatchMap, Surroundings, undefined

Layout = Literal["auto", "channels_last", "channels_first"]


@dataclass(frozen=True)
class _Mixing(BatchMap):
    """What both share: whom a picture is mixed with, and the labels."""

    kind: ClassVar[str] = "augment"

    num_classes: int = param(help="classes that labels count", minimum=1)
    alpha: float = param(1.0, "of the Beta(alpha, alpha) that each batch's share is drawn from")
    p: float = param(1.0, "share of the batches that are mixed", minimum=0.0, maximum=1.0)
    field: str = param("image", "field that holds the pictures, a tensor with a row for each")
    label: str = param("label", "field of class numbers (B,), or of shares (B, num_classes)")

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield what is wrong with alpha."""
        if not 0 < self.alpha < math.inf:
            yield f"alpha={describe_given(self.alpha)}: allowed is a number above 0"

    def apply(self, batch: Batch, rng: Rng) -> Batch:
        """Return the batch mixed; labels become shares (B, num_classes) of float32.

        Raises:
            KeyError: a field is missing.
            ValueError: a label beyond the number of classes.
        """
        pictures = self._tensor(batch, self.field)
        shares = self._shares(batch, len(pictures))
        mixed = dict(batch)
        draw = rng.numpy
        if draw.random() < self.p:
            other = torch.from_numpy(draw.permutation(len(pictures))).to(pictures.device)
            first = float(draw.beta(self.alpha, self.alpha))
            mixed[self.field], first = self._mixed(pictures, other, first, rng)
            shares = first * shares + (1 - first) * shares[other.to(shares.device)]
        mixed[self.label] = shares
        return mixed

    def _mixed(
        self, pictures: torch.Tensor, other: torch.Tensor, first: float, rng: Rng
    ) -> tuple[torch.Tensor, float]:
        """Return the pictures mixed with the others, and the share of the first of each two."""
        raise undefined(self, "_mixed")

    def _tensor(self, batch: Batch, field: str) -> torch.Tensor:
        if field not in batch:
            raise missing_field(field, batch)
        value: Any = batch[field]
        if not isinstance(value, torch.Tensor):
            raise TypeError(
                f"field {field!r} holds {describe_given(value)}; {self.name} needs a tensor, as "
                "collate.Stack(batch_size) makes"
            )
        return value

    def _shares(self, batch: Batch, rows: int) -> torch.Tensor:
        labels = self._tensor(batch, self.label)
        count = self.num_classes
        whole = not (labels.is_floating_point() or labels.is_complex())
        if len(labels) != rows or labels.ndim not in (1, 2) or (labels.ndim == 1 and not whole):
            raise ValueError(
                f"field {self.label!r} has shape {tuple(labels.shape)} and dtype {labels.dtype}; "
                f"allowed are class numbers ({rows},) or shares ({rows}, {count})"
            )
        if labels.ndim == 2:
            if labels.shape[1] != count:
                raise ValueError(
                    f"field {self.label!r} has shares of {labels.shape[1]} classes, "
                    f"num_classes={count}"
                )
            return labels.float()
        low, high = int(labels.min()), int(labels.max())
        if low < 0 or high >= count:
            raise ValueError(
                f"field {self.label!r} has class {low if low < 0 else high}; allowed is 0 to "
                f"{count - 1} (num_classes={count})"
            )
        return one_hot(labels.long(), count).float()


@dataclass(frozen=True)
class Mixup(_Mixing):
    """Blend each picture with another one of the batch, and their labels alike.

    Zhang et al., "mixup: Beyond Empirical Risk Minimization" (2017). uint8 stays uint8, rounded.
    """

    name: ClassVar[str] = "augment.mixup"
    example: ClassVar[str] = "augment.Mixup(1000, alpha=0.2)"

    def _mixed(
        self, pictures: torch.Tensor, other: torch.Tensor, first: float, rng: Rng
    ) -> tuple[torch.Tensor, float]:
        if pictures.is_floating_point():
            return torch.lerp(pictures[other], pictures, first), first
        blend = torch.lerp(pictures[other].float(), pictures.float(), first)
        return blend.round_().to(pictures.dtype), first


@dataclass(frozen=True)
class Cutmix(_Mixing):
    """Paste a box of another picture of the batch into each, and share their labels by area.

    Yun et al., "CutMix: Regularization Strategy to Train Strong Classifiers with Localizable
    Features" (2019). The share is that of the box as it is, cut off at the edges.
    """

    name: ClassVar[str] = "augment.cutmix"
    example: ClassVar[str] = "augment.Cutmix(1000)"

    layout: Layout = param("auto", "where the channels are; auto: the side of 1, 3 or 4")

    def _mixed(
        self, pictures: torch.Tensor, other: torch.Tensor, first: float, rng: Rng
    ) -> tuple[torch.Tensor, float]:
        last = self._has_channels_last(pictures)
        height, width = pictures.shape[1:3] if last else pictures.shape[2:4]
        side = math.sqrt(1 - first)
        draw = rng.random
        (top, bottom), (left, right) = (
            _span(draw.uniform(0, length), side * length, length) for length in (height, width)
        )
        box: Any = (slice(None), slice(top, bottom), slice(left, right))
        box = box if last else (slice(None), *box)
        out = pictures.clone()
        out[box] = pictures[other][box]
        return out, 1 - (bottom - top) * (right - left) / (height * width)

    def _has_channels_last(self, pictures: torch.Tensor) -> bool:
        if self.layout != "auto":
            return self.layout == "channels_last"
        last, first = (pictures.shape[side] in (1, 3, 4) for side in (-1, 1))
        if pictures.ndim != 4 or last == first:
            raise ValueError(
                f"field {self.field!r} has shape {tuple(pictures.shape)}, which does not tell "
                'where its channels are; set layout="channels_last" or "channels_first"'
            )
        return last


def _span(centre: float, length: float, whole: int) -> tuple[int, int]:
    """Return the pixels [start, stop) of a stretch, cut off at the edges."""
    start = max(0, round(centre - length / 2))
    return start, max(start, min(whole, round(centre + length / 2)))
