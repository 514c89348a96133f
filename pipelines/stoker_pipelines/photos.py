"""JPEG pictures in ImageNet's sizes: feeding a fast device, or training a small ResNet.

By default no model is trained: the step takes the time that a batch takes on one A100
training a ResNet-50 in mixed precision, 2,470 pictures/s as NVIDIA publishes it
(DeepLearningExamples, PyTorch/Classification/ConvNets/resnet50v1.5, training
performance). A core decodes and augments a few hundred pictures/s, so that a machine with
fewer than some ten of them cannot feed it: the loader is what binds, and the run shows
which of its stages.

With `train=True` a small ResNet learns at 64 pixels which photograph a crop is of and how
it is turned. Validation accuracy is above 0.9 as a rule: VALIDATED.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from stoker import Pipeline, Task
from stoker_pipelines.digits import WarmUpAndDecay, accuracy, cross_entropy
from stoker_pipelines.photos_data import ensure_photos
from stoker_plugins import augment, collate, decode, read, step

_SIZE, _TRAINING_SIZE = 224, 64
_EPOCHS = 10


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
        loss=cross_entropy,
        optimizer=adamw,
        schedule=WarmUpAndDecay(epochs * (counts["train"] // batch_size)),
    )
    return Pipeline(
        "photos",
        source,
        *decoding,
        # Without flips: one makes a picture turned by 90 degrees look like one turned by 270.
        augment.RandomResizedCrop(size, scale=(0.35, 1.0)),
        *batching,
        step.Train(task),
        epochs=epochs,
        evaluate=photos_val(data, size),
    )
