"""Batches as lists, for values of any shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from stoker.sample import Batch, Sample
from stoker.stages import Alloc
from stoker_plugins.collate.columns import columns, identity
from stoker_plugins.collate.count import ByCount


@dataclass(frozen=True)
class List(ByCount):
    """Make a dict of lists, the values untouched: boxes, texts, pictures of any size."""

    name: ClassVar[str] = "collate.list"
    example: ClassVar[str] = "collate.List(32)"

    def assemble(self, samples: Sequence[Sample], alloc: Alloc) -> Batch:
        """Return the batch: by field a list with one value a sample.

        Raises:
            ValueError: a field that only some of the samples have.
        """
        return {**identity(samples), **columns(samples)}
