"""One contestant of `bench.peers` in a process of its own, which keeps it from all others.

    python -m bench.peers_child NAME JOB [--prepare]

Opens it, then runs one epoch for each line on standard input, "warm" or "timed"; tells of each
in a line of JSON. `--prepare` writes what it reads, in a process that leaves no trace in the
one that is measured. Nothing is imported that a contestant's environment may lack.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any, TextIO

import numpy
import psutil

from bench.peers_contestants import BY_NAME, Contestant
from bench.peers_job import Epoch, Job


@dataclass(frozen=True)
class Told:
    """What an epoch was like. Times in s."""

    pictures: int
    seconds: float
    """From asking for the epoch to having its last batch."""
    first_s: float
    """From asking for it to having its first batch."""
    cpu_s: float
    """CPU time of this process and its children."""
    mean: float | None
    """Mean of all values, where it was asked for and there are batches."""


def run_epoch(epoch: Epoch, number: int, job: Job, look: bool = False) -> Told:
    """Run an epoch and return what it was like.

    Args:
        epoch: begins it.
        number: of it.
        job: what it is to give.
        look: take the mean of all values too, which costs time.

    Raises:
        RuntimeError: its batches are not those that were asked for.
    """
    gc.collect()
    pictures, first_s, cpu_s = 0, 0.0, tree_cpu_s()
    means: list[float] = []
    begun = time.perf_counter()
    for batch in epoch(number):
        if not pictures:
            first_s = time.perf_counter() - begun
        pictures += _checked(batch, job)
        if look and not isinstance(batch, int):
            means.append(float(numpy.asarray(batch[0]).mean()))
    seconds = time.perf_counter() - begun
    if pictures != job.pictures:
        raise RuntimeError(f"{pictures} of {job.pictures} pictures came")
    mean = sum(means) / len(means) if means else None
    return Told(pictures, seconds, first_s, tree_cpu_s() - cpu_s, mean)


def _checked(batch: Any, job: Job) -> int:
    if isinstance(batch, int):  # the limit makes no batches
        return batch
    pictures, labels = batch
    given, side = tuple(pictures.shape), job.size
    if given not in ((job.batch_size, side, side, 3), (job.batch_size, 3, side, side)):
        raise RuntimeError(f"a batch of {given}, not {(job.batch_size, side, side, 3)}")
    if len(labels) != job.batch_size:
        raise RuntimeError(f"{len(labels)} labels with {job.batch_size} pictures")
    if not str(pictures.dtype).endswith("uint8"):
        raise RuntimeError(f"a batch of {pictures.dtype}, not uint8")
    return job.batch_size


def tree_cpu_s() -> float:
    """Return the CPU time that this process and its children have taken, in s."""
    here = psutil.Process()
    total = 0.0
    for process in (here, *here.children(recursive=True)):
        try:
            total += sum(process.cpu_times()[:4])  # own, and of children that have ended
        except psutil.Error:  # ended between being listed and being asked
            continue
    return total


def serve(contestant: Contestant, job: Job, asked: TextIO, told: TextIO) -> None:
    """Open a contestant and run its epochs, one for each line that comes."""
    begun = time.perf_counter()
    with contestant.open(job) as epoch:
        opened = {"open_s": time.perf_counter() - begun, "versions": versions(contestant)}
        print(json.dumps(opened), file=told, flush=True)
        for number, line in enumerate(asked):
            found = run_epoch(epoch, number, job, look=line.strip() == "warm")
            print(json.dumps(asdict(found)), file=told, flush=True)


def versions(contestant: Contestant) -> dict[str, str]:
    """Return the versions of what a contestant imports."""
    return {name: metadata.version(name) for name in contestant.needs}


def main(arguments: Sequence[str]) -> int:
    """Serve the contestant that the arguments name."""
    name, job, *rest = arguments
    # What libraries print must not get between the lines that are told.
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    logging.getLogger("absl").setLevel(logging.ERROR)  # grain misses an optional profiler
    warnings.simplefilter("ignore")
    if "--prepare" in rest:
        BY_NAME[name].prepare(Job.from_json(job))
        return 0
    serve(BY_NAME[name], Job.from_json(job), sys.stdin, told)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
