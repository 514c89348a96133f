"""All shards of one data set, indexed, and how a sample is read from them by position."""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from itertools import accumulate

from stoker.sample import Origin, Sample
from stoker_plugins.read import indexcache
from stoker_plugins.read.keys import lacking
from stoker_plugins.read.packed import ShardIndex, pack, unpack
from stoker_plugins.read.tarindex import index_of

# Up to here one read of all a sample's members and a copy beat a read each.
_TOGETHER_NBYTES = 1 << 20
_OPEN_SHARDS = 256
_INDEX_THREADS = 8


class Shelf:
    """The samples of several shards, numbered through.

    Args:
        shards: their indexes, in order.
    """

    def __init__(self, shards: Sequence[ShardIndex]) -> None:
        self.shards = tuple(shards)
        self._starts = [0, *accumulate(map(len, self.shards))]

    def __len__(self) -> int:
        return self._starts[-1]

    @property
    def nbytes(self) -> int:
        """The bytes of all columns, in memory or mapped."""
        return sum(shard.nbytes for shard in self.shards)

    def identity(self) -> bytes:
        """Return what two shelves share that number the same samples in the same way."""
        facts = [(shard.path, shard.size, shard.mtime_ns, len(shard)) for shard in self.shards]
        return hashlib.blake2b(repr(facts).encode(errors="surrogateescape")).digest()

    def find(self, number: int) -> tuple[ShardIndex, int]:
        """Return the shard that holds a sample, and the sample's number in it."""
        if not 0 <= number < len(self):
            raise IndexError(f"no sample {number}: the shards hold {len(self)}")
        shard = bisect_right(self._starts, number) - 1
        return self.shards[shard], number - self._starts[shard]

    def origin(self, number: int) -> Origin:
        """Return where a sample lies."""
        shard, sample = self.find(number)
        return Origin(shard.key(sample), shard.path, shard.offsets[shard.firsts[sample]])

    @contextmanager
    def reader(
        self, required: Sequence[str], workers: int = 1
    ) -> Iterator[Callable[[int], Sample]]:
        """Yield a function that reads a sample by number; any thread may call it.

        Args:
            required: fields without which a sample is refused.
            workers: how many readers there are, which share the bound on open files.
        """
        # A handle that falls out of the cache is closed when its last read returns.
        handles = lru_cache(max(4, _OPEN_SHARDS // workers))(_Handle)
        find = self.find

        def read(number: int) -> Sample:
            shard, sample = find(number)
            return _read(shard, sample, handles(shard), required)

        try:
            yield read
        finally:
            handles.cache_clear()


def build(paths: Sequence[str], keep: bool) -> tuple[Shelf, list[str]]:
    """Index shards, several at once, and return them with what is wrong with the rest.

    With `keep` the index of all is one file that every process maps, so it is in memory
    once. Where no file can be written, each process holds an index of its own.
    """
    if not paths:
        return Shelf(()), []
    if keep and (shards := _mapped(paths)):
        return Shelf(shards), []

    def attempt(path: str) -> ShardIndex | str:
        try:
            return index_of(path, keep)
        except (ValueError, OSError) as error:
            return str(error)

    with ThreadPoolExecutor(min(_INDEX_THREADS, len(paths)), "stoker-index") as pool:
        results = list(pool.map(attempt, paths))
    shards = [result for result in results if isinstance(result, ShardIndex)]
    broken = [result for result in results if isinstance(result, str)]
    if keep and not broken:
        if len(paths) > 1:  # one shard's file was written when it was indexed
            indexcache.keep(paths, pack(shards))
        shards = _mapped(paths) or shards
    return Shelf(shards), broken


def _mapped(paths: Sequence[str]) -> list[ShardIndex]:
    """Return the index that is kept for all these shards, or none where it is not current."""
    for buffer in indexcache.mapped(paths):
        shards = unpack(buffer, paths) or []
        try:
            if all(shard.unchanged(os.stat(shard.path)) for shard in shards):
                return shards
        except OSError:
            continue  # a shard is gone, which is said when it is indexed
    return []


class _Handle:
    """A shard open for reading, as it was when it was indexed."""

    fd = -1

    def __init__(self, shard: ShardIndex) -> None:
        self.fd = os.open(shard.path, os.O_RDONLY)
        now = os.fstat(self.fd)
        if not shard.unchanged(now):
            raise ValueError(
                f"{shard.path} was changed after it was indexed ({shard.size} bytes then, "
                f"{now.st_size} now); start again to read it as it is"
            )

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


def _read(shard: ShardIndex, sample: int, handle: _Handle, required: Sequence[str]) -> Sample:
    if shard.faults and sample in shard.faults:
        raise ValueError(f"{shard.path}: {shard.faults[sample]}")
    members, offsets, sizes = shard.members(sample), shard.offsets, shard.sizes
    start = offsets[members[0]]
    span = offsets[members[-1]] + sizes[members[-1]] - start
    key = shard.key(sample)
    found: Sample = {"__key__": key, "__url__": shard.path, "__offset__": start}
    together = _pread(handle.fd, span, start) if span <= _TOGETHER_NBYTES else None
    for member in members:
        size, offset = sizes[member], offsets[member]
        found[shard.names[shard.fields[member]]] = (
            _pread(handle.fd, size, offset)
            if together is None
            else together[offset - start : offset - start + size]
        )
    for field in required:
        if field not in found:
            seen = [shard.names[shard.fields[member]] for member in members]
            raise ValueError(f"{shard.path}: {lacking(required, seen, key)}")
    return found


def _pread(fd: int, size: int, offset: int) -> bytes:
    """Return exactly `size` bytes; one call gives 2 GiB at most."""
    data = os.pread(fd, size, offset)
    while len(data) < size:
        more = os.pread(fd, size - len(data), offset + len(data))
        if not more:
            raise ValueError(f"the shard ends at offset {offset + len(data)}, inside a member")
        data += more
    return data
