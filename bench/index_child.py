"""One worker process that reads a data set by a shared index, and says what memory it has.

    python -m bench.index_child PATTERN INDEX COUNT

It opens the shards and says so, then reads as many samples as a line on standard input
asks for, and answers with its memory as a line of JSON; and so on.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import islice

import psutil

from bench.index_data import MEMBER_NBYTES, key
from stoker.rng import Rng
from stoker.stages import Worker
from stoker_plugins.read import WebDataset

# Prime, and so without a common divisor with any number of keys below it.
_STRIDE = 15_485_863


def numbers(total: int, index: int, count: int, epoch: int) -> Iterator[int]:
    """Yield a worker's share of an epoch: all numbers, once, scattered, and held nowhere."""
    for position in range(index, total, count):
        yield (position * _STRIDE + epoch) % total


def say() -> None:
    """Write this process's private and proportional memory, in bytes."""
    gc.collect()
    memory = psutil.Process().memory_full_info()
    print(json.dumps({"private": memory.uss, "proportional": memory.pss}), flush=True)


def main(arguments: Sequence[str]) -> None:
    """Open, then read some of an epoch for each line that comes."""
    pattern, index, count = arguments[0], *map(int, arguments[1:])
    source = WebDataset(pattern)
    total = len(source.addresses(0, Rng(0, source.name)))
    with source.open(Worker(source.name, index, count, "process")) as read:
        print("opened", flush=True)
        for epoch, reads in enumerate(sys.stdin):
            for number in islice(numbers(total, index, count, epoch), int(reads)):
                sample = read(number)
                if len(sample["jpg"]) != MEMBER_NBYTES or sample["__key__"] != key(number):
                    raise RuntimeError(f"sample {number} is not as it was written: {sample}")
            say()


if __name__ == "__main__":
    main(sys.argv[1:])
