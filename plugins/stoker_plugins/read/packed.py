"""What shards hold, packed; and the same as a file that processes share by mapping it.

A sample costs its key and about 20 bytes: columns are as narrow as their values allow.
The file holds the columns as they are used, so a mapped index costs a process no
memory of its own, and opening one takes no parsing of samples.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

# Raised when the layout or the naming policy changes: older files are made anew.
VERSION = 2

_MAGIC = b"stokeidx"
_START = struct.Struct("<8sQQ")
"""The magic, the checksum of all that follows, the length of the facts."""
_ALIGN = 8
_COLUMNS = ("keys", "key_ends", "firsts", "offsets", "sizes", "fields")


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
    keys: memoryview
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

    @property
    def nbytes(self) -> int:
        """The bytes of all columns."""
        return sum(column.nbytes for column in self.columns())

    def columns(self) -> Iterator[memoryview]:
        """Yield the columns, in the order of the file."""
        return (getattr(self, name) for name in _COLUMNS)

    def key(self, sample: int) -> str:
        """Return the key of a sample."""
        blob = self.keys[self.key_ends[sample] : self.key_ends[sample + 1]]
        return str(blob, "utf-8", "surrogateescape")

    def members(self, sample: int) -> range:
        """Return the numbers of a sample's members."""
        return range(self.firsts[sample], self.firsts[sample + 1])

    def unchanged(self, now: os.stat_result) -> bool:
        """Say whether the shard still is what was indexed."""
        return (now.st_size, now.st_mtime_ns) == (self.size, self.mtime_ns)


def narrow(values: Any) -> memoryview:
    """Return non-negative integers as a column of the narrowest type that holds them."""
    column = numpy.asarray(values, numpy.uint64)
    return column.astype(numpy.min_scalar_type(int(column.max(initial=0)))).data


def pack(shards: Sequence[ShardIndex]) -> list[Any]:
    """Return the buffers that, one after another, are the file of some shards."""
    facts = json.dumps({"version": VERSION, "shards": [_facts(shard) for shard in shards]})
    head = facts.encode()
    head += b" " * (-len(head) % _ALIGN)
    buffers: list[Any] = [head]
    for shard in shards:
        for column in shard.columns():
            buffers += [column, bytes(-column.nbytes % _ALIGN)]
    checksum = 0
    for buffer in buffers:
        checksum = zlib.crc32(buffer, checksum)
    return [_START.pack(_MAGIC, checksum, len(head)), *buffers]


def unpack(buffer: Any, paths: Sequence[str]) -> list[ShardIndex] | None:
    """Return the shards that a file holds, as views of it; None where it is not whole or not ours.

    Args:
        buffer: the content of the file, mapped or read.
        paths: the shards, in the order in which they were packed.
    """
    try:
        magic, checksum, length = _START.unpack_from(buffer)
        with memoryview(buffer) as whole, whole[_START.size :] as body:
            # A byte that changed on the disk would give other samples' bytes.
            if magic != _MAGIC or zlib.crc32(body) != checksum:
                return None
            facts = json.loads(body[:length].tobytes())
        if facts["version"] != VERSION or len(facts["shards"]) != len(paths):
            return None
        at = _START.size + length
        shards = []
        for path, one in zip(paths, facts["shards"], strict=True):
            columns = []
            for kind, count in one["columns"]:
                column = numpy.ndarray(count, numpy.dtype(kind), buffer, at)
                if not column.dtype.isnative:  # written on a machine of another byte order
                    return None
                columns.append(column.data)
                at += -(-column.nbytes // _ALIGN) * _ALIGN
            shards.append(
                ShardIndex(
                    path,
                    one["size"],
                    one["mtime_ns"],
                    one["closed"],
                    tuple(one["names"]),
                    dict(one["faults"]),
                    *columns,
                )
            )
    except (struct.error, KeyError, ValueError, TypeError):
        return None  # not ours, or written by another version: made anew
    return shards


def _facts(shard: ShardIndex) -> dict[str, Any]:
    return {
        "size": shard.size,
        "mtime_ns": shard.mtime_ns,
        "closed": shard.closed,
        "names": shard.names,
        "faults": list(shard.faults.items()),
        "columns": [[numpy.dtype(column.format).str, len(column)] for column in shard.columns()],
    }
