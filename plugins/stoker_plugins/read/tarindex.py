"""What one shard holds: made in one pass over its headers, kept on disk.

The kept copy is used while the shard's size and time of change are those that it was
made from.
"""

from __future__ import annotations

import os
from array import array
from functools import partial

from stoker_plugins.read import indexcache
from stoker_plugins.read.keys import Grouping, link
from stoker_plugins.read.packed import ShardIndex, narrow, pack, unpack
from stoker_plugins.read.tarwalk import Walk


def index_of(path: str, keep: bool = True) -> ShardIndex:
    """Return the index of a shard: the kept one where it is current, else a new one.

    Args:
        path: an uncompressed tar.
        keep: look for the kept copy, and leave one.

    Raises:
        ValueError: the shard is cut, damaged or out of order; names it and the offset.
        OSError: it cannot be read.
    """
    with open(path, "rb", buffering=0) as file:
        now = os.fstat(file.fileno())
        for content in indexcache.kept([path]) if keep else ():
            kept = unpack(content, [path])
            if kept is not None and kept[0].unchanged(now):
                return kept[0]
        made = _make(path, file.fileno(), now)
    if keep:
        indexcache.keep([path], pack([made]))
    return made


def _make(path: str, fd: int, now: os.stat_result) -> ShardIndex:
    walk, grouping = Walk(partial(os.pread, fd), path, now.st_size), Grouping(path)
    names: dict[str, int] = {}
    faults: dict[int, str] = {}
    keys, key_ends, firsts = bytearray(), array("Q", [0]), array("Q")
    offsets, sizes, fields = array("Q"), array("Q"), array("Q")
    for member in walk:
        placed = grouping.place(member.name)
        if placed is None:
            continue
        if placed.first:
            keys += placed.key.encode("utf-8", "surrogateescape")
            key_ends.append(len(keys))
            firsts.append(len(offsets))
        fault = link(member.name) if member.link else placed.fault
        if fault:
            faults.setdefault(len(firsts) - 1, fault)
        offsets.append(member.offset)
        sizes.append(member.size)
        fields.append(names.setdefault(placed.field, len(names)))
    firsts.append(len(offsets))
    return ShardIndex(
        path,
        now.st_size,
        now.st_mtime_ns,
        walk.closed,
        tuple(names),
        faults,
        memoryview(bytes(keys)),
        *map(narrow, (key_ends, firsts, offsets, sizes, fields)),
    )
