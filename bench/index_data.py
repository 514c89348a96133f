"""Shards of a million keys that take no room: sparse files, and their index made outright."""

from __future__ import annotations

import os
from pathlib import Path

import numpy

from stoker_plugins.read import indexcache
from stoker_plugins.read.packed import ShardIndex, narrow, pack

SHARDS = 8
MEMBER_NBYTES = 64
"""Data of each member: reading is not what is measured."""


def key(number: int) -> str:
    """Return a key as ImageNet's files are named."""
    return f"n{number // 1300:08d}/ILSVRC2012_train_{number:08d}"


def shard(path: Path, start: int, stop: int) -> ShardIndex:
    """Write a shard that holds nothing but room, and return the index of its samples.

    A sample has two members, as most have: a picture and its class.
    """
    keys = [key(number).encode() for number in range(start, stop)]
    members = 2 * len(keys)
    step = 512 + 512
    with open(path, "xb") as file:
        os.truncate(file.fileno(), members * step + 1024)
        now = os.fstat(file.fileno())
    return ShardIndex(
        str(path),
        now.st_size,
        now.st_mtime_ns,
        True,
        ("jpg", "cls"),
        {},
        memoryview(b"".join(keys)),
        narrow(numpy.cumsum([0, *map(len, keys)])),
        narrow(numpy.arange(0, members + 1, 2)),
        narrow(numpy.arange(members) * step + 512),
        narrow(numpy.full(members, MEMBER_NBYTES)),
        narrow(numpy.arange(members) % 2),
    )


def shards(folder: Path, keys: int) -> tuple[list[ShardIndex], str]:
    """Write shards with so many keys in all, keep their index; return it and their pattern."""
    starts = [keys * number // SHARDS for number in range(SHARDS + 1)]
    made = [
        shard(folder / f"{number:03d}.tar", starts[number], starts[number + 1])
        for number in range(SHARDS)
    ]
    indexcache.keep([one.path for one in made], pack(made))
    return made, f"{folder}/*.tar"
