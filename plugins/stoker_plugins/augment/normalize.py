"""Normalising whole batches, on the host or on the device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch

from stoker.errors import describe_given
from stoker.parameters import param
from stoker.rng import Rng
from stoker.sample import Batch, missing_field
from stoker.stages import BatchMap, Resource, Surroundings, Worker

Rows = dict[tuple[torch.device, int], tuple[torch.Tensor, torch.Tensor]]
"""Scale and bias of the longest picture row seen, by device and channels."""


@dataclass(frozen=True)
class Normalize(BatchMap):
    """Bring a batch to zero mean and unit deviation: (x / 255 - mean) / std.

    Takes uint8 (B, H, W, C), gives float32 (B, C, H, W) in channels-last memory.
    The default mean and std are ImageNet's.
    """

    name: ClassVar[str] = "augment.normalize"
    kind: ClassVar[str] = "augment"
    resource: ClassVar[Resource] = "device"
    example: ClassVar[str] = "augment.Normalize(mean=(0.5,), std=(0.25,))"

    mean: tuple[float, ...] = param(
        (0.485, 0.456, 0.406), "by channel, of values from 0 to 1; one serves all channels"
    )
    std: tuple[float, ...] = param(
        (0.229, 0.224, 0.225), "by channel, of values from 0 to 1; one serves all channels"
    )
    field: str = param("image", "field that holds the pictures")

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield what is wrong with mean and std."""
        if len(self.mean) != len(self.std) or not self.mean:
            yield (
                f"mean has {len(self.mean)} values and std {len(self.std)}; "
                "allowed is one a channel in both, or one for all"
            )
        for name, values, least in (("mean", self.mean, 0.0), ("std", self.std, 1e-9)):
            if any(not least <= value <= 1.0 for value in values):
                yield (
                    f"{name}={describe_given(values)}: allowed is from 0 to 1"
                    f"{', 0 left out' if name == 'std' else ''}, "
                    "since pixels are divided by 255 first"
                )

    @contextmanager
    def open(self, worker: Worker) -> Iterator[Callable[[Batch, Rng], Batch]]:
        """Keep scale and bias on the device while the worker lives."""
        rows: Rows = {}
        yield partial(self._normalize, rows)

    def apply(self, batch: Batch, rng: Rng) -> Batch:
        """Return the batch with its pictures normalised; the batch itself stays as it is.

        Raises:
            KeyError: the field is missing.
            TypeError: it holds no uint8 tensor (B, H, W, C).
            ValueError: mean and std are for another number of channels.
        """
        return self._normalize({}, batch, rng)

    def _normalize(self, rows: Rows, batch: Batch, rng: Rng) -> Batch:
        images = self._images_of(batch)
        count, height, width, channels = images.shape
        scale, bias = self._row(rows, images.device, channels, width)
        # Whole rows in the last axis: an inner loop over C values would be twice as slow.
        flat = images.reshape(count, height, width * channels).to(torch.float32)
        torch.addcmul(bias, flat, scale, out=flat)  # one pass, in its own memory
        shaped = flat.view(count, height, width, channels)
        return {**batch, self.field: shaped.permute(0, 3, 1, 2)}  # (B, C, H, W)

    def _images_of(self, batch: Batch) -> torch.Tensor:
        if not isinstance(batch, dict):
            raise TypeError(
                f"the batch is a {type(batch).__name__}; allowed is a dict of tensors, "
                "as collate.Stack makes"
            )
        if self.field not in batch:
            raise missing_field(self.field, batch)
        images = batch[self.field]
        if not isinstance(images, torch.Tensor):
            raise TypeError(
                f"field {self.field!r} holds a {type(images).__name__}; allowed is a uint8 tensor "
                "(B, H, W, C): gather with collate.Stack"
            )
        if images.dtype != torch.uint8 or images.ndim != 4:
            raise TypeError(
                f"field {self.field!r} is {images.dtype} of shape {tuple(images.shape)}; allowed "
                "is uint8 (B, H, W, C): normalise once, after collate.Stack"
            )
        return images

    def _row(
        self, rows: Rows, device: torch.device, channels: int, width: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return scale and bias for one picture row: two tensors (width * channels)."""
        if len(self.mean) not in (1, channels):
            raise ValueError(
                f"field {self.field!r} has {channels} channels, but mean and std have "
                f"{len(self.mean)} values; give one a channel, or one for all"
            )
        held = rows.get((device, channels))
        if held is None or held[0].numel() < width * channels:
            std = torch.tensor(self.std, dtype=torch.float64).expand(channels)
            mean = torch.tensor(self.mean, dtype=torch.float64).expand(channels)
            scale = (1 / (255 * std)).to(torch.float32).repeat(width)
            bias = (-mean / std).to(torch.float32).repeat(width)
            held = rows[device, channels] = (scale.to(device), bias.to(device))
        return held[0][: width * channels], held[1][: width * channels]
