"""One process of bench/watch.py: two epochs over JPEG files, watched or not.

    python -m bench.watch_epoch FOLDER SAMPLES WORKERS (watched|plain) COSTS_NS

It prints the CPU time of the second epoch and what metering took of both, as JSON. A process
for each: where its memory happens to lie makes one process up to 7 % slower than another.
"""

from __future__ import annotations

import io
import json
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

if __package__ in (None, ""):  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.watch_costs import BATCH as FETCHED
from bench.watch_costs import CALL, NEXT, PASS
from bench.watch_costs import EPOCH as PASSES
from stoker.engine.malloc import keep_freed_memory
from stoker.watching import table as t
from stoker.watching import watch
from stoker.watching.gather import gather
from stoker.watching.wrapper import watch_of

BATCH = 32
# Decoders are asked so many times a picture whether they are metered.
LOADS = 1


class Compose:
    """As in torchvision."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, sample: Any) -> Any:
        for transform in self.transforms:
            sample = transform(sample)
        return sample


class Crop:
    """Cut 224 pixels out at random."""

    def __call__(self, picture: Image.Image) -> Image.Image:
        left = int(torch.randint(picture.width - 223, ()))
        top = int(torch.randint(picture.height - 223, ()))
        return picture.crop((left, top, left + 224, top + 224))


class Flip:
    """Flip every other one."""

    def __call__(self, picture: Image.Image) -> Image.Image:
        if torch.rand(()) < 0.5:
            return picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return picture


class ToTensor:
    """Bytes to floats, channels first."""

    def __call__(self, picture: Image.Image) -> torch.Tensor:
        array = torch.from_numpy(numpy.array(picture))  # (H, W, C)
        return array.permute(2, 0, 1).float().div_(255.0)


class Normalize:
    """Mean and deviation of ImageNet."""

    mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        return (image - self.mean) / self.std


class Folder(Dataset[Any]):
    """Pictures in files, as torchvision's ImageFolder reads them."""

    def __init__(self, folder: Path, count: int) -> None:
        self.files = sorted(folder.glob("*.jpg"))
        self.count = count
        self.transform = Compose([Crop(), Flip(), ToTensor(), Normalize()])

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        path = self.files[index % len(self.files)]
        with Image.open(io.BytesIO(path.read_bytes())) as picture:
            return self.transform(picture.convert("RGB")), index % 10


def pictures(folder: Path, count: int = 48) -> None:
    """Write JPEG files of the size and content of everyday pictures."""
    draw = numpy.random.default_rng(7)
    for number in range(count):
        coarse = draw.integers(0, 255, (48, 64, 3), numpy.uint8)
        picture = Image.fromarray(coarse).resize((500, 375), Image.Resampling.BICUBIC)
        picture.save(folder / f"{number:03}.jpg", quality=90)


def cpu_s(made: Any) -> float:
    """Return the CPU time of an epoch, that of the workers included, in s."""
    begun = sum(os.times()[:4])
    for _ in made:
        pass
    return sum(os.times()[:4]) - begun


def accounted(watched: Any, costs_ns: Mapping[str, float], spent_s: float) -> float:
    """Return the share of the CPU time that metering took.

    Args:
        watched: a loader after some epochs.
        costs_ns: of each kind of metering.
        spent_s: CPU time of these epochs.
    """
    facts = gather(watch_of(watched))
    tables = [facts.work, facts.main] if facts.settings.num_workers else [facts.work]
    calls = sum(slot.calls for figures in tables for slot in figures.slots.values())
    each = sum(slot.calls for slot in facts.transforms.values()) / facts.work[t.HOOKED_ITEMS]
    passing = (each + LOADS) * (facts.work[t.ITEMS] - facts.work[t.METERED_ITEMS])
    cost_ns = (
        calls * costs_ns[CALL]
        + passing * costs_ns[PASS]
        + facts.work[t.BATCHES] * costs_ns[FETCHED]
        + facts.loop.batches * costs_ns[NEXT]
        + len(facts.loop.epochs) * costs_ns[PASSES]
        + sum(figures[t.SAMPLER_CPU_NS] + figures[t.SETUP_CPU_NS] for figures in tables)
    )
    return cost_ns / 1e9 / spent_s


def main(arguments: Sequence[str]) -> int:
    """Run and print."""
    folder, samples, workers, kind, costs = arguments
    torch.set_num_threads(1)
    # Whether memory goes back to the system and comes anew is chance, and worth 10 %.
    keep_freed_memory()
    warnings.simplefilter("ignore")  # torch warns of more workers than cores
    loader: Any = DataLoader(Folder(Path(folder), int(samples)), BATCH, num_workers=int(workers))
    watched = kind == "watched"
    if watched:
        loader = watch(loader)
    first_s, second_s = cpu_s(loader), cpu_s(loader)
    share = accounted(loader, json.loads(costs), first_s + second_s) if watched else None
    print(json.dumps({"cpu_s": second_s, "share": share}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
