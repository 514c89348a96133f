"""Local tar shards in WebDataset's format, read by position."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from stoker.errors import RunError, UsageError, describe_given, unknown_name
from stoker.parameters import faults, param, shown
from stoker.rng import Rng
from stoker.sample import Address, Origin, Sample
from stoker.stages import Caution, Source, Surroundings, Worker
from stoker_plugins.read.keys import fields_in_lower_case
from stoker_plugins.read.order import order
from stoker_plugins.read.shards import Patterns, compression, expand
from stoker_plugins.read.shelf import Shelf, build
from stoker_plugins.read.stamps import stamp

_PLANNED = "_planned_identity"


@dataclass(frozen=True)
class WebDataset(Source):
    """Reads samples from local, uncompressed tar shards in any order.

    Each shard is indexed once, in a pass over its headers; the index is kept beside
    the shard as `.NAME.stoker-index`, or in the user's cache folder where the shard's
    folder cannot be written, until the shard changes. The index of several shards is
    kept as one file too, which all processes map, so it is in memory once. `shuffle`
    draws from all samples of all shards. A sample is named by shard and key; its fields
    are its members' extensions in lower case, as bytes: nothing is decoded here.

    A shard that is cut, damaged or out of order is found when it is indexed, and fails
    the run before it starts, whatever the run's error policy: how many samples it lost
    nobody knows. A sample with a fault of its own (a member twice, a required field
    missing), or in a shard that changed since, fails when it is read, by that policy.
    """

    name: ClassVar[str] = "read.webdataset"
    example: ClassVar[str] = 'read.WebDataset("photos/train-{000..007}.tar", shuffle=True)'

    __repr__ = shown

    shards: Patterns = param(help="tar files: a path, a glob, a brace pattern, or several of these")
    shuffle: bool = param(False, "another order of all samples in each epoch")
    required: tuple[str, ...] = param((), "fields without which a sample is refused")
    keep_index: bool = param(True, "keep the index on disk: for the next start, and to share it")

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield what is wrong with the shards; faults inside them are cautions."""
        if any(faults(self)):
            return
        yield from self._problems
        if self._problems:
            return
        shelf, broken = self._indexed
        yield from (Caution(f"{line}; the run will fail") for line in broken)
        yield from _cautions(shelf)
        if broken:
            return
        if not len(shelf):
            yield f"{self._paths[0]} has no sample: members must be named like '0001.jpg'"
            return
        fields = {name for shard in shelf.shards for name in shard.names}
        for field in self._required:
            if field not in fields:
                yield unknown_name("member field", field, fields, "required in every sample")

    def addresses(self, epoch: int, rng: Rng) -> Sequence[Address]:
        """Return this epoch's order of sample numbers, counted through all shards."""
        return order(len(self._shelf), self.shuffle, rng)

    def content(self) -> str:
        """Return a digest of the shards' paths, sizes and times of change."""
        return stamp(self._paths)

    def read(self, address: Address) -> Sample:
        """Return one sample; `open` is the way to read many."""
        with self.open(Worker()) as read:
            return read(address)

    def origin(self, address: Any) -> Origin:
        """Return key, shard and the offset of the sample's data, from the index."""
        return self._shelf.origin(address)

    @contextmanager
    def open(self, worker: Worker) -> Iterator[Callable[[Address], Sample]]:
        """Hold a bounded number of shards open; yield what reads a sample by number."""
        with self._shelf.reader(self._required, worker.count) as read:
            yield read  # type: ignore[misc]  # its addresses are integers

    def __getstate__(self) -> dict[str, Any]:
        # Another process finds the shards anew, and must number them as they are here.
        state = super().__getstate__()
        planned = self._planned
        if planned is None and "_indexed" in self.__dict__:
            planned = self._indexed[0].identity()
        return state if planned is None else {**state, _PLANNED: planned}

    @cached_property
    def _expanded(self) -> tuple[list[str], list[str]]:
        return expand(self.shards)

    @property
    def _paths(self) -> list[str]:
        return self._expanded[0]

    @cached_property
    def _required(self) -> tuple[str, ...]:
        return fields_in_lower_case(self.required)

    @cached_property
    def _problems(self) -> list[str]:
        problems = list(self._expanded[1])
        for path in self._paths:
            try:
                packed = compression(path)
            except OSError as error:
                problems.append(f"shard {path!r} cannot be read: {error.strerror}")
                continue
            if packed:
                problems.append(
                    f"shard {path!r} is compressed ({packed}), so it has no positions to read at; "
                    "use read.WebDatasetStream, or unpack it"
                )
        return problems

    @cached_property
    def _indexed(self) -> tuple[Shelf, list[str]]:
        return build(self._paths, self.keep_index)

    @property
    def _planned(self) -> bytes | None:
        """The identity of the index in the process that this stage came from."""
        return self.__dict__.get(_PLANNED)

    @cached_property
    def _shelf(self) -> Shelf:
        if self._problems:
            raise UsageError("; ".join(self._problems))
        shelf, broken = self._indexed
        if broken:
            raise RunError(
                f"{len(broken)} of {len(self._paths)} shards cannot be used: " + "; ".join(broken)
            )
        if self._planned not in (None, shelf.identity()):
            raise RunError(
                f"shards {describe_given(self.shards)} are not those that were indexed when the "
                "run was planned: files came, went or changed; start again"
            )
        return shelf


def _cautions(shelf: Shelf) -> Iterator[Caution]:
    faulty = [shard for shard in shelf.shards if shard.faults]
    if faulty:
        count = sum(len(shard.faults) for shard in faulty)
        first = next(iter(faulty[0].faults.values()))
        yield Caution(
            f"{count} of {len(shelf)} samples will fail when they are read; the first, in "
            f"{faulty[0].path}: {first}"
        )
    cut = [shard.path for shard in shelf.shards if not shard.closed]
    if cut:
        yield Caution(
            f"{len(cut)} of {len(shelf.shards)} shards have no end-of-archive mark and may have "
            f"been cut between two members; the first: {cut[0]}"
        )
