"""Tar shards that can only be streamed."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import IO, Any, ClassVar

from stoker.errors import SampleError, UsageError
from stoker.parameters import faults, param
from stoker.rng import Rng
from stoker.sample import Sample, Shard, fields_of
from stoker.stages import StreamSource, Surroundings
from stoker_plugins.read.keys import Grouping, fields_in_lower_case, lacking, link
from stoker_plugins.read.order import order
from stoker_plugins.read.shards import Patterns, compression, expand
from stoker_plugins.read.tarwalk import BLOCK, Member, Walk

_OPENERS: dict[str, Any] = {"": open, "gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open}
_BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError)
_PIECE = 64 << 20
"""No read is longer: a damaged size must not ask for more memory than the shard can fill."""


@dataclass(frozen=True)
class WebDatasetStream(StreamSource):
    """Streams the samples of tar shards, plain or compressed with gzip, bzip2 or xz.

    For shards that cannot be read by position; `read.WebDataset` is better for the
    rest, since it shuffles samples and resumes without reading again. Naming and what
    counts as a fault are the same. Inside a shard the order is that of the file;
    `shuffle` changes the order of shards.

    Nothing is looked into before it is streamed, so every fault shows when it is
    reached: damage, a member twice, a required field missing. It ends its shard with
    one error that names shard and offset; samples that were complete before it are
    delivered. In a quarantine it counts as one sample, and the run goes on with the
    next shard.
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

    def stream(self, shard: Shard) -> Iterator[Sample | SampleError]:
        """Yield the samples of one shard, in the order of the file; errors of single ones too."""
        path = str(shard)
        required = fields_in_lower_case(self.required)
        grouping = Grouping(path)
        sample: Sample = {}
        faulty: str | None = None
        for member, data in _members(path):
            placed = grouping.place(member.name)
            if placed is None:
                continue
            if placed.first:
                if sample:
                    yield self._complete(sample, required)
                sample = {"__key__": placed.key, "__url__": path, "__offset__": member.offset}
            fault = link(member.name) if member.link else placed.fault
            if placed.key == faulty:
                sample = {}  # it has been said
            elif fault:
                sample, faulty = {}, placed.key
                offset = member.offset - BLOCK
                yield SampleError(self.name, fault, key=faulty, shard=path, offset=offset)
            else:
                sample[placed.field] = data
        if sample:
            yield self._complete(sample, required)

    def _complete(self, sample: Sample, required: Sequence[str]) -> Sample | SampleError:
        """Return a sample, or the error that it lacks a field."""
        lacks = lacking(required, fields_of(sample), sample["__key__"])
        if not lacks:
            return sample
        key, path, offset = (sample[name] for name in ("__key__", "__url__", "__offset__"))
        return SampleError(self.name, lacks, key=key, shard=path, offset=offset)

    @cached_property
    def _expanded(self) -> tuple[list[str], list[str]]:
        return expand(self.paths)


def _members(path: str) -> Iterator[tuple[Member, bytes]]:
    """Yield each regular member, or link, with its data.

    Raises:
        ValueError: the shard is cut or damaged; names the offset, in its unpacked data.
    """
    packed = compression(path)
    if packed not in _OPENERS:
        raise ValueError(f"{path} is compressed with {packed}, which cannot be streamed")
    shown = f"{path}, unpacked," if packed else path
    with _OPENERS[packed](path, "rb") as file:
        stream = _Forward(file)
        walk = Walk(stream.read, shown)
        try:
            for member in walk:
                data = b"" if member.link else stream.read(member.size, member.offset)
                if not member.link and len(data) < member.size:
                    where = f"{member.name!r}, of {member.size} bytes"
                    raise walk.cut(member.offset - BLOCK, where)
                yield member, data
            if not walk.closed and stream.at % BLOCK:
                raise walk.cut(stream.at, "a block")
        except _BROKEN as error:
            raise ValueError(
                f"{shown} at offset {stream.at}: is cut or damaged: {error or type(error).__name__}"
            ) from error


class _Forward:
    """Reads a stream at offsets that never go back."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.at = file, 0

    def read(self, size: int, offset: int) -> bytes:
        """Return so many bytes at an offset, fewer at the stream's end."""
        while self.at < offset and self._take(offset - self.at):
            pass
        pieces = []
        while size and (piece := self._take(size)):
            pieces.append(piece)
            size -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _take(self, size: int) -> bytes:
        data = self._file.read(min(size, _PIECE))
        self.at += len(data)
        return data
