"""Tar shards that can only be streamed, through the webdataset package."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import IO, Any, ClassVar

from stoker.errors import UsageError
from stoker.parameters import faults, param
from stoker.rng import Rng
from stoker.sample import Sample, Shard, fields_of
from stoker.stages import StreamSource, Surroundings
from stoker_plugins.read.keys import Grouping, fields_in_lower_case, lacking
from stoker_plugins.read.order import order
from stoker_plugins.read.shards import Patterns, compression, expand

_OPENERS: dict[str, Any] = {"": open, "gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open}
_BROKEN = (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, tarfile.TarError)


@dataclass(frozen=True)
class WebDatasetStream(StreamSource):
    """Streams the samples of tar shards, plain or compressed with gzip, bzip2 or xz.

    For shards that cannot be read by position; `read.WebDataset` is better for the
    rest, since it shuffles samples and resumes without reading again. Naming is the
    same. Inside a shard the order is that of the file; `shuffle` changes the order
    of shards. The first fault in a shard ends it with an error.
    """

    name: ClassVar[str] = "read.webdataset_stream"
    example: ClassVar[str] = 'read.WebDatasetStream("photos/train-{000..007}.tar.gz")'

    paths: Patterns = param(help="tar files: a path, a glob, a brace pattern, or several of these")
    shuffle: bool = param(False, "another order of the shards in each epoch")
    required: tuple[str, ...] = param((), "fields without which a sample is refused")

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield what is wrong with the patterns, and files packed in a way unknown here."""
        if any(faults(self)):
            return
        yield from self._expanded[1]
        for path in self._expanded[0]:
            try:
                packed = compression(path)
            except OSError as error:
                yield f"shard {path!r} cannot be read: {error.strerror}"
                continue
            if packed not in _OPENERS:
                yield (
                    f"shard {path!r} is compressed with {packed}; allowed are gzip, bzip2, xz and "
                    "none: pack it again"
                )

    def shards(self, epoch: int, rng: Rng) -> Sequence[Shard]:
        """Return this epoch's shards, as paths, in order."""
        paths, problems = self._expanded
        if problems:
            raise UsageError("; ".join(problems))
        return [paths[index] for index in order(len(paths), self.shuffle, rng)]

    def stream(self, shard: Shard) -> Iterator[Sample]:
        """Yield the samples of one shard, in the order of the file."""
        path = str(shard)
        required = fields_in_lower_case(self.required)
        grouping = Grouping(path)
        sample: Sample = {}
        for name, data in _members(path):
            placed = grouping.place(name)
            if placed is None:
                continue
            if placed.fault:
                raise ValueError(f"{path}: sample {placed.key!r}: {placed.fault}")
            if placed.first:
                if sample:
                    yield _complete(sample, required)
                sample = {"__key__": placed.key, "__url__": path}
            sample[placed.field] = data
        if sample:
            yield _complete(sample, required)

    @cached_property
    def _expanded(self) -> tuple[list[str], list[str]]:
        return expand(self.paths)


def _complete(sample: Sample, required: Sequence[str]) -> Sample:
    lacks = lacking(required, fields_of(sample), sample["__key__"])
    if lacks:
        raise ValueError(f"{sample['__url__']}: {lacks}")
    return sample


def _members(path: str) -> Iterator[tuple[str, bytes]]:
    """Yield the name and data of each regular member.

    Raises:
        ValueError: the shard is cut or damaged; names the last good member.
    """
    from webdataset.tariterators import tar_file_iterator

    last = "the beginning"
    with _opened(path) as raw:
        file = _Counted(raw, path)
        try:
            for member in tar_file_iterator(file):
                last = repr(member["fname"])
                yield member["fname"], member["data"]
            file.drain()
        except _BROKEN as error:
            raise ValueError(
                f"{path} is cut or damaged after {last}, within {file.count} bytes of its unpacked "
                f"data: {error}"
            ) from error


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    packed = compression(path)
    if packed not in _OPENERS:
        raise ValueError(f"{path} is compressed with {packed}, which cannot be streamed")
    with _OPENERS[packed](path, "rb") as file:
        yield file


class _Counted(io.RawIOBase):
    """A stream that counts what was read of it."""

    def __init__(self, file: IO[bytes], path: str) -> None:
        self._file, self._path, self.count = file, path, 0

    def __repr__(self) -> str:
        return self._path  # webdataset writes it into its errors

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.count += len(data)
        return data

    def drain(self) -> None:
        """Read to the end, which proves a compressed file's checksum.

        `tarfile` ends quietly at a damaged header and at the end mark of the first
        of several archives glued together; both leave data behind.

        Raises:
            ValueError: what is left is more than padding.
        """
        while rest := self.read(1 << 20):
            if rest.strip(b"\0"):
                raise ValueError("data follows the end of the archive")
        if self.count % tarfile.BLOCKSIZE:
            raise ValueError("it ends inside a block")
