"""JPEG pictures in ImageNet's sizes: feeding a fast device, or training a small ResNet.

By default no model is trained: the step takes the time that a batch takes on one A100
training a ResNet-50 in mixed precision, 2,470 pictures/s as NVIDIA publishes it
(DeepLearningExamples, PyTorch/Classification/ConvNets/resnet50v1.5, training
performance). A core prepares some 450 pictures/s, so that a machine with fewer than six
cores cannot feed it: the loader is what binds, and the run shows which of its stages.

With `train=True` a small ResNet learns at 64 pixels which photograph a crop is of and how
it is turned. Validation accuracy ends at 0.93 to 1.0, by seed (chance: 0.125), after about
a minute on two cores.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from stoker import Pipeline, Task
from stoker.rng import Rng
from stoker.sample import Batch
from stoker_pipelines.digits import WarmUpAndDecay, accuracy, cross_entropy
from stoker_pipelines.photos_data import ensure_photos
from stoker_plugins import augment, collate, decode, read, step

_SIZE, _TRAINING_SIZE = 224, 64
_EPOCHS = 10
_GREY = 115.0  # mean of the pictures' values


def photos(
    data: str = "data/photos",
    batch_size: int = 64,
    size: int | None = None,
    step_ms: float = 26.0,
    train: bool = False,
    epochs: int | None = None,
) -> Pipeline:
    """Return the pipeline that feeds photos to a step of a set time, or trains with them.

    Makes its data on first use.

    Args:
        data: folder of the shards, as `stoker data photos` writes it.
        batch_size: pictures in one step.
        size: side of the pictures that the step gets, in pixels; None: 224, to train 64.
        step_ms: time that a step of the stood-for device takes, in ms; the default goes
            with 64 pictures. Not used to train.
        train: train a small ResNet instead.
        epochs: passes over the pictures; None: 1, to train 10.
    """
    counts = ensure_photos(Path(data))
    source = read.WebDataset(f"{data}/train-*.tar", shuffle=True)
    decoding = (decode.Image(), decode.Fields(label="cls"))
    batching = (collate.Stack(batch_size, drop_last=True), augment.Normalize())
    if not train:
        augmenting = (augment.RandomResizedCrop(size or _SIZE), augment.Flip())
        stages = (source, *decoding, *augmenting, *batching, step.Timed(step_ms))
        return Pipeline("photos", *stages, epochs=epochs or 1)
    size, epochs = size or _TRAINING_SIZE, epochs or _EPOCHS
    task = Task(
        model=Classifier(counts["classes"]),
        loss=smoothed_cross_entropy,
        optimizer=adamw,
        schedule=WarmUpAndDecay(epochs * (counts["train"] // batch_size)),
    )
    return Pipeline(
        "photos",
        source,
        *decoding,
        # Without flips: one makes a picture turned by 90 degrees look like one turned by 270.
        augment.RandomResizedCrop(size, scale=(0.35, 1.0)),
        augment.Apply(in_other_light, field="image", copies=False),
        *batching,
        step.Train(task),
        epochs=epochs,
        evaluate=photos_val(data, size),
    )


def photos_val(data: str = "data/photos", size: int = _TRAINING_SIZE) -> Pipeline:
    """Return the pipeline that measures a model on the validation pictures."""
    classes = ensure_photos(Path(data))["classes"]
    return Pipeline(
        "photos_val",
        read.WebDataset(f"{data}/val-*.tar"),
        decode.Image(),
        decode.Fields(label="cls"),
        augment.Resize(size),
        augment.CenterCrop(size),
        collate.Stack(128),
        augment.Normalize(),
        step.Evaluate(Task(model=Classifier(classes), loss=cross_entropy, metrics=accuracy)),
    )


def in_other_light(picture: NDArray[np.uint8], rng: Rng) -> NDArray[np.uint8]:
    """Return a picture (H, W, 3) with saturation, contrast and colour cast drawn anew.

    The two halves of a photograph differ in their colours: they must not be learnt by heart.
    """
    draw = rng.random
    pixels = picture.astype(np.float32) - _GREY
    grey = pixels.mean(2, keepdims=True)
    coloured = grey + (pixels - grey) * draw.uniform(0.0, 1.5)
    cast = np.array([draw.uniform(-27.0, 27.0) for _ in range(3)], np.float32)
    lit = coloured * draw.uniform(0.6, 1.4) + cast + _GREY
    shown: NDArray[np.uint8] = np.clip(lit, 0, 255).astype(np.uint8)
    return shown


@dataclass(frozen=True)
class Classifier:
    """Makes the model: (B, 3, H, W) to logits (B, classes).

    A dataclass, not a closure, so that equal pipelines are equal and travel.

    Args:
        classes: how many there are.
        width: channels of the first stage.
    """

    classes: int
    width: int = 32

    def __call__(self) -> nn.Module:
        """Return a new model."""
        return make_model(self.classes, self.width)


def make_model(classes: int = 8, width: int = 32) -> nn.Module:
    """Return a ResNet of three stages: (B, 3, H, W) to logits (B, classes)."""
    return nn.Sequential(
        nn.Conv2d(3, width, 3, stride=2, padding=1, bias=False),  # (B, width, H / 2, W / 2)
        nn.GroupNorm(8, width),
        nn.ReLU(),
        Residual(width, width),  # (B, width, H / 4, W / 4)
        Residual(width, 2 * width),
        Residual(2 * width, 4 * width),  # (B, 4 * width, H / 16, W / 16)
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * width, classes),
    )


class Residual(nn.Module):
    """Two convolutions beside a shortcut: (B, inputs, H, W) to (B, outputs, H / 2, W / 2).

    GroupNorm looks at one picture only, so splitting a batch does not change the result.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False),
            nn.GroupNorm(8, outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.GroupNorm(8, outputs),
        )
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride=2, bias=False)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Return the sum of both ways."""
        return functional.relu(self.body(pictures) + self.shortcut(pictures))


def smoothed_cross_entropy(model: nn.Module, batch: Batch) -> tuple[torch.Tensor, int]:
    """Return the cross entropy summed over the batch, and the number of pictures.

    A tenth of each label is spread over all classes, which makes the model less sure of the
    left halves that it learns from, and better on the right ones.
    """
    logits, labels = model(batch["image"]), batch["label"]
    loss = functional.cross_entropy(logits, labels, reduction="sum", label_smoothing=0.1)
    return loss, len(labels)


def adamw(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Return the optimizer."""
    return torch.optim.AdamW(parameters, lr=3e-3, weight_decay=0.3)
