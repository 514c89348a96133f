"""Batches as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from stoker.sample import Batch, Sample
from stoker.stages import Alloc
from stoker_plugins.collate.columns import columns, identity
from stoker_plugins.collate.count import ByCount
from stoker_plugins.collate.rows import stacked


@dataclass(frozen=True)
class Stack(ByCount):
    """Make a dict of tensors, one row a sample.

    Arrays and tensors of equal shape become (B, *shape) of their dtype, ints int64,
    floats float32, bools bool, each (B,). Text, bytes, dicts and other objects become
    lists, as do `__key__` and `__url__`.
    """

    name: ClassVar[str] = "collate.stack"
    example: ClassVar[str] = "collate.Stack(64, drop_last=True)"

    def assemble(self, samples: Sequence[Sample], alloc: Alloc) -> Batch:
        """Return the batch, its tensors in memory from `alloc`.

        Raises:
            ValueError: a field that differs in shape, or that only some samples have.
            TypeError: a field that differs in type or dtype.
        """
        batch: dict[str, Any] = dict(identity(samples))
        for field, values in columns(samples).items():
            batch[field] = stacked(field, values, samples, alloc)
        return batch
