"""What `stoker.watch` costs: its share of the CPU time of epochs over JPEG files.

    python -m bench.watch [--json] [--out FILE] [--rounds N] [--scale F]

Direct accounting, since no comparison of runs could tell 1 % from a machine's drift: what
each kind of metering costs, with caches that a picture went through in between, times how
often it happened in a real run, and the CPU time of the samplers and of getting ready, as
measured in that run. Beside it stands the comparison: each round runs an epoch with and
without a watch, in an order drawn anew, and takes the CPU time of the whole process tree.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import tempfile
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

from bench.common import (
    Target,
    as_json,
    cautions,
    command,
    digits,
    interleave,
    median,
    parser,
    ratio,
    surroundings,
    verdicts,
    write,
)
from bench.metering_costs import cold_ns
from bench.watch_costs import BATCH as FETCHED
from bench.watch_costs import CALL, NEXT, PASS, cost_loops
from bench.watch_costs import EPOCH as PASSES
from stoker.engine.malloc import keep_freed_memory
from stoker.watching import table as t
from stoker.watching import watch
from stoker.watching.gather import gather
from stoker.watching.wrapper import watch_of

# Fewer pairs do not show a difference of one percent.
LEAST_ROUNDS = 20
ROUNDS = 24
EPOCH = 1280
BATCH = 32
WORKERS = (0, 2)
LIMIT = 0.01
# Decoders are asked so many times a picture whether they are metered.
LOADS = 1
TURNS = 2000


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


def run(given: argparse.Namespace, repeat: str) -> dict[str, Any]:
    """Measure and return the result, JSON-able."""
    torch.set_num_threads(1)
    # Whether memory goes back to the system and comes anew is chance, and worth 10 %.
    keep_freed_memory()
    where = surroundings()
    count = max(int(EPOCH * given.scale) // BATCH, 1) * BATCH
    rows: dict[str, Any] = {}
    targets = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of more workers than cores
        pictures(Path(folder))
        costs_ns = {name: cold_ns(loop, TURNS) for name, loop in cost_loops().items()}
        for workers in WORKERS:
            name = f"{workers} workers"
            seconds, shares = _measure(Folder(Path(folder), count), workers, given.rounds, costs_ns)
            share = median(shares)
            rows[name] = {
                "share": share.to_dict(),
                "plain_ms_per_sample": digits(1e3 * median(seconds["plain"]).value / count),
                "watched_over_plain": ratio(seconds["watched"], seconds["plain"]).to_dict(),
            }
            targets.append(Target(f"share of the CPU time, {name}", LIMIT, True, share))
    return {
        "what": "share of the CPU time of an epoch over JPEG files that watching takes",
        **where,
        "command": repeat,
        "rounds": given.rounds,
        "samples_per_round": count,
        "cautions": cautions(given, where, LEAST_ROUNDS),
        "cost_us": {name: digits(cost / 1e3) for name, cost in costs_ns.items()},
        "rows": rows,
        "targets": {target.name: target.to_dict() for target in targets},
    }


def _measure(
    dataset: Folder, workers: int, rounds: int, costs_ns: Mapping[str, float]
) -> tuple[dict[str, list[float]], list[float]]:
    shares: list[float] = []

    def made() -> Any:
        return DataLoader(dataset, BATCH, num_workers=workers)

    def watched() -> float:
        loader = watch(made())
        spent = cpu_s(loader)
        shares.append(accounted(loader, costs_ns, spent))
        return spent

    runs = {"plain": lambda: cpu_s(made()), "watched": watched}

    def progress(text: str) -> None:
        print(f"{workers} workers: {text}", file=sys.stderr)

    return interleave(runs, rounds, lambda: None, progress), shares


def table(result: dict[str, Any]) -> str:
    """Return a result as text."""
    lines = [f"{result['what']}; {result['rounds']} rounds of {result['samples_per_round']}"]
    lines += [f"{name}: {cost:.3g} us" for name, cost in result["cost_us"].items()]
    for name, row in result["rows"].items():
        share, over = row["share"], row["watched_over_plain"]
        lines.append(
            f"{name}: {share['value']:.2%} ({share['low']:.2%} to {share['high']:.2%}) of "
            f"{row['plain_ms_per_sample']:.3g} ms CPU a sample; watched over plain "
            f"{over['value']:.3f} ({over['low']:.3f} to {over['high']:.3f})"
        )
    return "\n".join([*lines, *result["cautions"], *verdicts(result)])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write."""
    options = parser((__doc__ or "").splitlines()[0], ROUNDS)
    given = options.parse_args(arguments)
    result = run(given, command("bench.watch", given, options.parse_args([])))
    if given.out:
        write(given.out, result)
    print(as_json(result) if given.json else table(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
