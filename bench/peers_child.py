"""One contestant of `bench.peers` in a process of its own, which keeps it from all others.

    python -m bench.peers_child NAME JOB

Opens it, then runs one epoch for each line on standard input; tells of each in a line of JSON.
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
from typing import Any, TextIO

import psutil

from bench.peers_contestants import CONTESTANTS
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


def run_epoch(epoch: Epoch, number: int, job: Job) -> Told:
    """Run an epoch and return what it was like.

    Raises:
        RuntimeError: its batches are not those that were asked for.
    """
    gc.collect()
    pictures, first_s, cpu_s = 0, 0.0, tree_cpu_s()
    begun = time.perf_counter()
    for batch in epoch(number):
        if not pictures:
            first_s = time.perf_counter() - begun
        pictures += _checked(batch, job)
    seconds = time.perf_counter() - begun
    if pictures != job.pictures:
        raise RuntimeError(f"{pictures} of {job.pictures} pictures came")
    return Told(pictures, seconds, first_s, tree_cpu_s() - cpu_s)


def _checked(batch: Any, job: Job) -> int:
    if isinstance(batch, int):  # the limit makes no batches
        return batch
    pictures, labels = batch
    shape = (job.batch_size, job.size, job.size, 3)
    if tuple(pictures.shape) != shape or len(labels) != job.batch_size:
        raise RuntimeError(f"a batch of {tuple(pictures.shape)}, not {shape}")
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


def serve(name: str, job: Job, asked: TextIO, told: TextIO) -> None:
    """Open a contestant and run its epochs, one for each line that comes."""
    contestant = next(one for one in CONTESTANTS if one.name == name)
    begun = time.perf_counter()
    with contestant.open(job) as epoch:
        print(json.dumps({"open_s": time.perf_counter() - begun}), file=told, flush=True)
        for number, _ in enumerate(asked):
            print(json.dumps(asdict(run_epoch(epoch, number, job))), file=told, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Serve the contestant that the arguments name."""
    name, job = arguments
    # What libraries print must not get between the lines that are told.
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    logging.getLogger("absl").setLevel(logging.ERROR)  # grain misses an optional profiler
    warnings.simplefilter("ignore")
    serve(name, Job.from_json(job), sys.stdin, told)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
