"""Handwritten digits and a small CNN: a whole training job in seconds, without a GPU.

Validation accuracy ends above 0.99 as a rule, and above 0.98 with any seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from torch.optim.lr_scheduler import LambdaLR

from stoker import Pipeline, Task
from stoker.sample import Batch
from stoker_pipelines.digits_data import ensure_digits
from stoker_plugins import augment, collate, decode, read, step

_MEAN, _STD = 0.305, 0.376  # of the training pictures, white is 1


def digits(data: str = "data/digits", batch_size: int = 64, epochs: int = 10) -> Pipeline:
    """Return the pipeline that trains the digits; makes its data on first use.

    Args:
        data: folder of the shards, as `stoker data digits` writes it.
        batch_size: pictures in one update.
        epochs: passes over the training pictures.
    """
    count = ensure_digits(Path(data))["train"]
    updates = epochs * (count // batch_size)
    return Pipeline(
        "digits",
        read.WebDataset(f"{data}/train-*.tar", shuffle=True),
        decode.Image(),
        decode.Fields(label="cls"),
        augment.RandomResizedCrop(8, scale=(0.7, 1.0)),
        collate.Stack(batch_size, drop_last=True),
        augment.Normalize(mean=(_MEAN,), std=(_STD,)),
        step.Train(
            Task(
                model=make_model,
                loss=cross_entropy,
                optimizer=adamw,
                schedule=WarmUpAndDecay(updates),
            )
        ),
        epochs=epochs,
        evaluate=digits_val(data),
    )


def digits_val(data: str = "data/digits", batch_size: int = 256) -> Pipeline:
    """Return the pipeline that measures a model on the validation pictures."""
    return Pipeline(
        "digits_val",
        read.WebDataset(f"{data}/val-*.tar"),
        decode.Image(),
        decode.Fields(label="cls"),
        collate.Stack(batch_size),
        augment.Normalize(mean=(_MEAN,), std=(_STD,)),
        step.Evaluate(Task(model=make_model, loss=cross_entropy, metrics=accuracy)),
    )


def make_model(width: int = 32) -> nn.Module:
    """Return the CNN: (B, 3, 8, 8) to logits (B, 10)."""
    return nn.Sequential(
        *_block(3, width),
        *_block(width, width),
        nn.MaxPool2d(2),  # (B, width, 4, 4)
        *_block(width, 2 * width),
        *_block(2 * width, 2 * width),
        nn.MaxPool2d(2),  # (B, 2 * width, 2, 2)
        nn.Flatten(),
        nn.Linear(8 * width, 10),
    )


def _block(inputs: int, outputs: int) -> list[nn.Module]:
    # GroupNorm looks at one picture only, so splitting a batch does not change the result.
    return [
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.GroupNorm(8, outputs),
        nn.ReLU(),
    ]


def cross_entropy(model: nn.Module, batch: Batch) -> tuple[torch.Tensor, int]:
    """Return the cross entropy summed over the batch, and the number of pictures."""
    loss = functional.cross_entropy(model(batch["image"]), batch["label"], reduction="sum")
    return loss, len(batch["label"])


def accuracy(model: nn.Module, batch: Batch) -> Mapping[str, tuple[torch.Tensor, int]]:
    """Return how many pictures were recognised, of how many."""
    right = (model(batch["image"]).argmax(1) == batch["label"]).sum()
    return {"accuracy": (right, len(batch["label"]))}


def adamw(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Return the optimizer."""
    return torch.optim.AdamW(parameters, lr=4e-3, weight_decay=0.01)


@dataclass(frozen=True)
class WarmUpAndDecay:
    """Makes the schedule: a rise over the first fifth of the updates, then half a cosine.

    A dataclass, not a closure, so that equal pipelines are equal and travel.

    Args:
        updates: how many there will be; any further ones have a rate of 0.
    """

    updates: int

    def __call__(self, optimizer: torch.optim.Optimizer) -> LambdaLR:
        """Return the schedule of an optimizer."""
        return LambdaLR(optimizer, self.factor)

    def factor(self, update: int) -> float:
        """Return the share of the optimizer's rate that an update, counted from 0, has."""
        rise = max(1, self.updates // 5)
        if update < rise:
            return (update + 1) / rise
        progress = min(1.0, (update - rise) / max(1, self.updates - rise))
        return 0.5 * (1 + math.cos(math.pi * progress))
