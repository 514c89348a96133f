"""Process workers: a Python-bound stage beside bare processes, and arrays on their way home.

    python -m bench.processes [--json] [--out FILE] [--rounds N] [--scale F]

"bound": each sample takes about 2 ms of Python code that holds the GIL, and makes a small
array. The limit is as many bare processes as there are cores, that hand nothing over.
"arrays": each sample is an array of 600 kB that its worker copies once from a prepared one,
and that the consumer reads from end to end; one worker. torch's DataLoader does the same
with its workers. All in one interleaved run.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy
import torch
from torch.utils.data import DataLoader, Dataset

if __package__ in (None, ""):  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.common import (
    Target,
    cautions,
    command,
    digits,
    interleave,
    median,
    parser,
    publish,
    ratio,
    surroundings,
    verdicts,
)
from stoker import Pipeline
from stoker.parameters import param
from stoker.rng import Rng
from stoker.sample import Sample
from stoker.stages import Map, Source

ROUNDS = 9
WORKERS = 2
SAMPLES = 1200
ARRAYS = 1500
NBYTES = 600_000
LEAST_SHARE = 0.9
LEAST_BYTES_PER_S = 1e9
TURNS = 16_000


def bound(number: int) -> numpy.ndarray[Any, Any]:
    """Return a small array that took some 2 ms of Python."""
    total = number
    for i in range(TURNS):
        total = (total * 31 + i) & 0xFFFF
    return numpy.full(64, total, numpy.int64)


_PREPARED = numpy.arange(NBYTES, dtype=numpy.uint8)


@dataclass(frozen=True)
class Numbers(Source):
    """0 .. n-1."""

    name: ClassVar[str] = "bench.numbers"
    n: int = param(1, minimum=1)

    def addresses(self, epoch: int, rng: Rng) -> Sequence[int]:
        """Return them in order."""
        return range(self.n)

    def read(self, address: Any) -> Sample:
        """Return a number."""
        return {"__key__": str(address), "x": address}


@dataclass(frozen=True)
class Bound(Map):
    """Python code that holds the GIL."""

    name: ClassVar[str] = "bench.bound"
    kind: ClassVar[str] = "augment"

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        """Return the sample with a small array."""
        return {**sample, "made": bound(sample["x"])}


@dataclass(frozen=True)
class Arrays(Map):
    """Makes arrays of 600 kB."""

    name: ClassVar[str] = "bench.arrays"
    kind: ClassVar[str] = "decode"

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        """Return the sample with an array of its own."""
        return {**sample, "array": _PREPARED.copy()}


class Made(Dataset[Any]):
    """The same for a DataLoader."""

    def __init__(self, count: int, make: Callable[[int], Any]) -> None:
        self.count, self.make = count, make

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return self.make(index)


def _copied(index: int) -> torch.Tensor:
    return torch.from_numpy(_PREPARED.copy())


# -- contestants: each is opened once, and gives the seconds of an epoch ----------------


@contextmanager
def bare(count: int) -> Iterator[Callable[[], float]]:
    """Yield what processes do that only work."""
    fork = multiprocessing.get_context("fork")
    pipes, processes = [], []
    for _ in range(WORKERS):
        here, there = fork.Pipe()
        processes.append(fork.Process(target=_bare, args=(there, count // WORKERS), daemon=True))
        processes[-1].start()
        pipes.append(here)

    def epoch() -> float:
        begun = time.perf_counter()
        for pipe in pipes:
            pipe.send(True)
        for pipe in pipes:
            pipe.recv()
        return time.perf_counter() - begun

    try:
        yield epoch
    finally:
        for pipe, process in zip(pipes, processes, strict=True):
            pipe.send(False)
            process.join(5)


def _bare(pipe: Any, count: int) -> None:
    while pipe.recv():
        for number in range(count):
            bound(number)
        pipe.send(None)


@contextmanager
def stoker(count: int, stage: Map) -> Iterator[Callable[[], float]]:
    """Yield what Stoker's process workers do."""
    pipeline = Pipeline("processes", Numbers(count, num_workers=1), stage)
    with pipeline as loader:

        def epoch() -> float:
            begun = time.perf_counter()
            for sample in loader:
                if "array" in sample:
                    sample["array"].sum(dtype=numpy.uint64)
            return time.perf_counter() - begun

        yield epoch


@contextmanager
def dataloader(
    count: int, workers: int, make: Callable[[int], Any], batch_size: int | None
) -> Iterator[Callable[[], float]]:
    """Yield what torch's workers do, in batches as people set them, as fast as they come."""
    made = DataLoader(
        Made(count, make),
        batch_size,
        num_workers=workers,
        persistent_workers=True,
        prefetch_factor=8,
    )

    def epoch() -> float:
        begun = time.perf_counter()
        for sample in made:
            if isinstance(sample, torch.Tensor) and sample.numel() == NBYTES:
                sample.numpy().sum(dtype=numpy.uint64)
        return time.perf_counter() - begun

    yield epoch


def run(given: argparse.Namespace, repeat: str) -> dict[str, Any]:
    """Measure and return the result, JSON-able."""
    torch.set_num_threads(1)
    where = surroundings()
    samples = max(int(SAMPLES * given.scale) // WORKERS, 1) * WORKERS
    arrays = max(int(ARRAYS * given.scale), 1)
    how: dict[str, Any] = {"executor": "process"}
    opened = {
        "bound, bare processes": partial(bare, samples),
        "bound, stoker": partial(stoker, samples, Bound(num_workers=WORKERS, **how)),
        "bound, torch DataLoader": partial(dataloader, samples, WORKERS, bound, 32),
        "arrays, stoker": partial(stoker, arrays, Arrays(num_workers=1, **how)),
        "arrays, torch DataLoader": partial(dataloader, arrays, 1, _copied, None),
    }
    with ExitStack() as stack, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of more workers than cores
        epochs = {name: stack.enter_context(make()) for name, make in opened.items()}
        seconds = interleave(epochs, given.rounds, lambda: None, partial(print, file=sys.stderr))
    counts = {name: samples if name.startswith("bound") else arrays for name in seconds}
    rates = {name: [counts[name] / s for s in taken] for name, taken in seconds.items()}
    share = ratio(rates["bound, stoker"], rates["bound, bare processes"])
    crossed = median([rate * NBYTES for rate in rates["arrays, stoker"]])
    targets = [
        Target("of bare processes, Python-bound", LEAST_SHARE, False, share),
        Target("bytes/s that cross from a worker", LEAST_BYTES_PER_S, False, crossed),
    ]
    return {
        "what": f"process workers, {WORKERS} of them on Python code, 1 on arrays of {NBYTES:,} B",
        **where,
        "command": repeat,
        "rounds": given.rounds,
        "samples_per_round": samples,
        "arrays_per_round": arrays,
        "cautions": cautions(given, where),
        "samples_per_s": {name: median(found).to_dict() for name, found in rates.items()},
        "of_bare_processes": {
            name: ratio(rates[name], rates["bound, bare processes"]).to_dict()
            for name in rates
            if name.startswith("bound")
        },
        "bytes_per_s": {
            name: median([rate * NBYTES for rate in rates[name]]).to_dict()
            for name in rates
            if name.startswith("arrays")
        },
        "targets": {target.name: target.to_dict() for target in targets},
    }


def table(result: dict[str, Any]) -> str:
    """Return a result as text."""
    lines = [f"{result['what']}; {result['rounds']} rounds"]
    for name, rate in result["samples_per_s"].items():
        line = f"{name:26} {digits(rate['value'], 3):>8g} samples/s"
        if name in result["of_bare_processes"]:
            line += f"   {result['of_bare_processes'][name]['value']:.3f} of bare processes"
        else:
            line += f"   {result['bytes_per_s'][name]['value'] / 1e9:.2f} GB/s"
        lines.append(line)
    return "\n".join([*lines, *result["cautions"], *verdicts(result)])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write."""
    options = parser((__doc__ or "").splitlines()[0], ROUNDS)
    given = options.parse_args(arguments)
    result = run(given, command("bench.processes", given, options.parse_args([])))
    return publish(given, result, table)


if __name__ == "__main__":
    sys.exit(main())
