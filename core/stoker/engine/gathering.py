"""Samples that wait for a batch, and the batches that they make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from stoker.engine.course import Place
from stoker.engine.jobs import Chunk
from stoker.sample import Sample, origin_of
from stoker.stages import Gather


class Gathering:
    """Applies a gather's decisions to samples as they arrive, in order."""

    def __init__(self, gather: Gather) -> None:
        self._gather = gather
        self._all_alike = type(gather).size is Gather.size
        self.waiting: list[Sample] = []
        self.places: list[Place] = []
        """Where in the epoch they stand."""
        self._sizes: list[Any] = []
        self.nbytes = 0.0
        """Bytes that wait."""

    def measure(self, chunk: Chunk) -> None:
        """Note what the decision needs to know of a chunk's samples; run by any worker."""
        if self._all_alike:
            return
        sizes, kept = [], []
        for index, sample in enumerate(chunk.samples):
            try:
                sizes.append(self._gather.size(sample))
            except Exception as error:
                if self._fails(chunk, index, error):
                    break
            else:
                kept.append(index)
        if len(kept) < len(chunk.samples):
            chunk.keep(kept)
        chunk.sizes = sizes

    def _fails(self, chunk: Chunk, index: int, error: Exception) -> bool:
        """Judge a sample that has no size; return whether it ends the run."""
        assert chunk.segment is not None
        place, name = origin_of(chunk.samples[index]), self._gather.name
        ending = chunk.segment.failures.judge(name, error, place, chunk.epoch)
        if ending is None:
            chunk.tally.quarantined += 1
            return False
        chunk.tally.failed += 1
        chunk.tally.unused += len(chunk.samples) - index - 1
        chunk.error = chunk.error or ending
        return True

    def add(self, chunk: Chunk) -> None:
        """Take a chunk's samples up."""
        self.waiting += chunk.samples
        self.places += chunk.places()[: len(chunk.samples)]  # an error cuts the samples off
        self._sizes += chunk.sizes if chunk.sizes is not None else [1] * len(chunk.samples)
        self.nbytes += chunk.nbytes

    def batches(self, more: bool) -> Iterator[tuple[list[Sample], list[Place], int]]:
        """Yield the batches to make now, with places and bytes; `more` samples may come."""
        if not self.waiting:
            return
        taken: list[int] = []
        each = self.nbytes / len(self.waiting)
        for group in self._gather.group(self._sizes, more):
            taken += group
            samples, places = [self.waiting[i] for i in group], [self.places[i] for i in group]
            yield samples, places, int(each * len(group))
        self._drop(taken, each)

    def take_all(self) -> tuple[list[Sample], list[Place], int]:
        """Return all that waits, as one batch, with places and bytes."""
        taken = self.waiting, self.places, int(self.nbytes)
        self.drop_all()
        return taken

    def drop_all(self) -> int:
        """Let all that waits go; return how many samples that were."""
        count = len(self.waiting)
        self.waiting, self.places, self._sizes, self.nbytes = [], [], [], 0.0
        return count

    def _drop(self, indices: Sequence[int], each: float) -> None:
        if not indices:
            return
        self.nbytes -= each * len(indices)
        if list(indices) == list(range(len(indices))):
            for column in (self.waiting, self.places, self._sizes):
                del column[: len(indices)]
            return
        gone = set(indices)
        self.waiting = [item for i, item in enumerate(self.waiting) if i not in gone]
        self.places = [item for i, item in enumerate(self.places) if i not in gone]
        self._sizes = [item for i, item in enumerate(self._sizes) if i not in gone]
