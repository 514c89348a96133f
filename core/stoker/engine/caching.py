"""Samples that a cache has pass the reading and the stages before it by.

When a chunk is started, the desk sets those of its samples aside that the store has, so that
the segments before the cache see only the others. The cache's runner puts both together again,
in order, and offers the store what was made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from stoker.cache import Cache, Fed, Store
from stoker.engine.failures import Failures
from stoker.engine.jobs import Chunk
from stoker.engine.runners import ChunkRunner
from stoker.errors import UsageError
from stoker.fingerprint import fingerprint
from stoker.measure.meter import Meter
from stoker.parameters import shown
from stoker.rng import Rng
from stoker.sample import Address, Origin, Sample, nbytes, origin_of, plain
from stoker.stages import PooledStage, Source


class Held(NamedTuple):
    """What a store keeps."""

    samples: int
    nbytes: int


class Desk:
    """Keeps the store of a cache stage for a loader, and says what it has.

    Args:
        stage: the cache.
        upstream: the stages before it, with their names; the source first.
        samples: that the source counts in an epoch.
    """

    def __init__(
        self, stage: Cache, upstream: Sequence[tuple[str, PooledStage]], samples: int | None
    ) -> None:
        self.stage, self.upstream = stage, upstream
        self._samples = samples
        self._store: Store | None = None
        self._is_closed = False
        self._left = Held(0, 0)
        self._lock = threading.Lock()

    @property
    def store(self) -> Store:
        """The store, opened when it is first asked for."""
        store = self._store
        if store is not None:
            return store
        with self._lock:
            if self._is_closed:
                raise UsageError(f"{self.stage.name} is closed with its loader")
            if self._store is None:
                self._store = self.stage.store(self._fed())
            return self._store

    def open(self) -> None:
        """Open the store, if it is not.

        Raises:
            UsageError: it cannot be opened, or its loader is closed.
        """
        _ = self.store

    def _fed(self) -> Fed:
        stages = [stage for _, stage in self.upstream]
        mark = fingerprint(stages, self._samples) if self.stage.lasting else ""
        return Fed(mark, " -> ".join(map(shown, stages)))

    def split(self, chunk: Chunk) -> None:
        """Set a new chunk's samples aside that the store has."""
        has = self.store.has
        kept = [index for index, address in enumerate(chunk.addresses) if has(address)]
        if not kept:
            return
        chunk.aside = [(chunk.positions[i], chunk.addresses[i]) for i in kept]
        chunk.tally.cached += len(kept)
        if len(kept) == len(chunk.addresses):
            chunk.addresses, chunk.positions = (), ()
            return
        gone = set(kept)
        others = [i for i in range(len(chunk.addresses)) if i not in gone]
        chunk.addresses = [chunk.addresses[i] for i in others]
        chunk.positions = [chunk.positions[i] for i in others]

    def close(self) -> None:
        """Close the store, if it was ever opened."""
        with self._lock:
            self._is_closed = True
            store, self._store = self._store, None
        if store is not None:
            self._left = Held(store.count, store.nbytes)
            store.close()

    @property
    def held(self) -> Held:
        """What the store keeps, or kept when it was closed."""
        store = self._store
        return self._left if store is None else Held(store.count, store.nbytes)


class CacheRunner(ChunkRunner):
    """Offers the store what was made, and takes from it what was set aside."""

    stage: Cache

    def __init__(
        self,
        stage: Cache,
        name: str,
        desk: Desk,
        meter: Meter,
        failures: Failures,
        seed: int,
        open_stage: Callable[[PooledStage], Any],
    ) -> None:
        super().__init__(stage, name, self._unused, meter, failures, seed)
        self._desk, self._seed, self._open = desk, seed, open_stage
        self._again: list[tuple[Any, Rng]] | None = None
        self._end: int | None = None
        """Position of the sample at which this chunk ends the run."""

    def __call__(self, chunk: Chunk) -> None:
        """Offer, take, and leave the chunk whole: in the order of its positions."""
        aside, chunk.aside = chunk.aside, []
        if chunk.error is not None:
            # Only what lies before the sample that failed is ready.
            ready = chunk.positions[len(chunk.samples) - 1] if chunk.samples else -1
            chunk.tally.unused += sum(position > ready for position, _ in aside)
            aside = [pair for pair in aside if pair[0] <= ready]
        tried = len(chunk.samples) + len(aside)
        self._end = None
        offered = self._offer(chunk)
        taken = [(place, self._take(chunk, place, address)) for place, address in aside]
        found = [(place, sample) for place, sample in taken if sample is not None]
        if found or len(offered) < len(chunk.samples):
            self._put_together(chunk, [*offered, *found])
        size = nbytes(chunk.samples[0]) * len(chunk.samples) if chunk.samples else 0
        self.count(chunk, tried, len(chunk.samples), size)

    def _offer(self, chunk: Chunk) -> list[tuple[int, Sample]]:
        """Offer what was made to the store; return it with its positions, less what failed."""
        put, order = self._desk.store.put, chunk.order
        kept: list[tuple[int, Sample]] = []
        for position, sample in zip(chunk.positions, chunk.samples, strict=False):
            try:
                if self._end is None:
                    put(plain(order[position]), sample)
            except Exception as error:
                self._fail(chunk, position, error, origin_of(sample))
            else:
                kept.append((position, sample))
        return kept

    def _take(self, chunk: Chunk, position: int, address: Address) -> Sample | None:
        """Return a sample that was set aside, None where it failed or was filtered."""
        sample = self._desk.store.get(address)
        if sample is not None:
            return sample
        try:
            sample = self._made_again(chunk.epoch, position, address)
        except Exception as error:
            self._fail(chunk, position, error, self._source.origin(address))
            return None
        chunk.tally.filtered += sample is None
        return sample

    def _fail(self, chunk: Chunk, position: int, error: Exception, origin: Origin) -> None:
        ending = self.failures.judge(self.name, error, origin, chunk.epoch)
        if ending is None:
            self.meter.failures += 1
            chunk.tally.quarantined += 1
            return
        chunk.tally.failed += 1
        chunk.error = chunk.error or ending
        self._end = position if self._end is None else min(position, self._end)

    def _put_together(self, chunk: Chunk, pairs: list[tuple[int, Sample]]) -> None:
        """Let the chunk hold samples by their positions, up to one that ends the run."""
        pairs.sort(key=_position)
        if self._end is not None:
            ready = [pair for pair in pairs if pair[0] < self._end]
            chunk.tally.unused += len(pairs) - len(ready)
            pairs = ready
        chunk.positions = [position for position, _ in pairs]
        chunk.samples = [sample for _, sample in pairs]

    def _made_again(self, epoch: int, position: int, address: Address) -> Sample | None:
        """Make what the store lost, such as of a file that was damaged, in this worker."""
        if self._again is None:
            self._again = [
                (self._open(stage), Rng(self._seed, name)) for name, stage in self._desk.upstream
            ]
        (read, _), *maps = self._again
        sample: Sample | None = read(address)
        for function, rng in maps:
            if sample is not None:
                sample = function(sample, rng.move(epoch, position))
        return sample

    @property
    def _source(self) -> Source:
        source = self._desk.upstream[0][1]
        assert isinstance(source, Source)
        return source

    def _unused(self, *_: Any) -> None:
        raise AssertionError("a cache is not called sample by sample")


def cut_off(chunk: Chunk) -> None:
    """End a chunk that failed before its cache: what was set aside will not be put back in.

    Samples behind the first of those are not ready either, since they come after it.
    """
    if not chunk.aside:
        return
    first = chunk.aside[0][0]
    ready = [i for i in range(len(chunk.samples)) if chunk.positions[i] < first]
    chunk.tally.unused += len(chunk.aside) + len(chunk.samples) - len(ready)
    chunk.aside = []
    chunk.keep(ready)


def _position(pair: tuple[int, Sample]) -> int:
    return pair[0]
