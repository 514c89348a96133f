"""What one shard holds, packed: made in one pass over its headers, kept on disk.

A sample costs its key and about 20 bytes; columns are as narrow as their values
allow. The kept copy is used while the shard's size and time of change are those
that it was made from.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from stoker_plugins.read import indexcache
from stoker_plugins.read.keys import Grouping
from stoker_plugins.read.tarwalk import Walk

# Raised when the layout or the naming policy changes: older copies are made anew.
_VERSION = 1


@dataclass(frozen=True, eq=False)
class ShardIndex:
    """The samples of one shard. Columns are memoryviews: they give plain integers."""

    path: str
    size: int
    mtime_ns: int
    closed: bool
    """The archive has its end mark."""
    names: tuple[str, ...]
    """The fields that occur in the shard."""
    faults: dict[int, str]
    """What is wrong with single samples, by number."""
    keys: bytes
    key_ends: memoryview
    """Where each sample's key ends in `keys`, led by a 0."""
    firsts: memoryview
    """Each sample's first member, and past the last the count of members."""
    offsets: memoryview
    """Where each member's data begins, in bytes."""
    sizes: memoryview
    fields: memoryview
    """Each member's field, as an index into `names`."""

    def __len__(self) -> int:
        return len(self.firsts) - 1

    def key(self, sample: int) -> str:
        """Return the key of a sample."""
        blob = self.keys[self.key_ends[sample] : self.key_ends[sample + 1]]
        return blob.decode("utf-8", "surrogateescape")

    def members(self, sample: int) -> range:
        """Return the numbers of a sample's members."""
        return range(self.firsts[sample], self.firsts[sample + 1])

    def unchanged(self, now: os.stat_result) -> bool:
        """Say whether the shard still is what was indexed."""
        return (now.st_size, now.st_mtime_ns) == (self.size, self.mtime_ns)


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
        for arrays in indexcache.kept(path) if keep else ():
            kept = _unpack(path, arrays)
            if kept is not None and kept.unchanged(now):
                return kept
        made = _make(path, file.fileno(), now)
    if keep:
        indexcache.keep(path, _pack(made))
    return made


def _make(path: str, fd: int, now: os.stat_result) -> ShardIndex:
    walk, grouping = Walk(fd, path), Grouping(path)
    names: dict[str, int] = {}
    faults: dict[int, str] = {}
    keys, key_ends, firsts = bytearray(), [0], list[int]()
    offsets, sizes, fields = list[int](), list[int](), list[int]()
    for member in walk:
        placed = grouping.place(member.name)
        if placed is None:
            continue
        if placed.first:
            keys += placed.key.encode("utf-8", "surrogateescape")
            key_ends.append(len(keys))
            firsts.append(len(offsets))
        fault = placed.fault
        if member.link:
            fault = f"{member.name!r} is a link, which holds no data; write it as a file"
        if fault:
            faults.setdefault(len(firsts) - 1, fault)
        offsets.append(member.offset)
        sizes.append(member.size)
        fields.append(names.setdefault(placed.field, len(names)))
    firsts.append(len(offsets))
    columns = [_narrow(column) for column in (key_ends, firsts, offsets, sizes, fields)]
    return ShardIndex(
        path,
        now.st_size,
        now.st_mtime_ns,
        walk.closed,
        tuple(names),
        faults,
        bytes(keys),
        *columns,
    )


def _narrow(values: Sequence[int]) -> memoryview:
    return numpy.array(values, numpy.min_scalar_type(max(values, default=0))).data


def _pack(index: ShardIndex) -> dict[str, Any]:
    facts = {
        "version": _VERSION,
        "size": index.size,
        "mtime_ns": index.mtime_ns,
        "closed": index.closed,
        "names": index.names,
        "faults": list(index.faults.items()),
    }
    return {
        "facts": numpy.frombuffer(json.dumps(facts).encode(), numpy.uint8),
        "keys": numpy.frombuffer(index.keys, numpy.uint8),
        "key_ends": index.key_ends,
        "firsts": index.firsts,
        "offsets": index.offsets,
        "sizes": index.sizes,
        "fields": index.fields,
    }


def _unpack(path: str, arrays: dict[str, Any]) -> ShardIndex | None:
    try:
        facts = json.loads(arrays["facts"].tobytes())
        if facts["version"] != _VERSION:
            return None
        return ShardIndex(
            path,
            facts["size"],
            facts["mtime_ns"],
            facts["closed"],
            tuple(facts["names"]),
            dict(facts["faults"]),
            arrays["keys"].tobytes(),
            *(arrays[name].data for name in ("key_ends", "firsts", "offsets", "sizes", "fields")),
        )
    except (KeyError, ValueError, TypeError):
        return None  # not ours, or written by another version: made anew
