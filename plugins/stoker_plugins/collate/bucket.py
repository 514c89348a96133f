"""Batches of samples of about one size, under a budget."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from stoker.errors import describe_given
from stoker.parameters import param
from stoker.sample import Batch, Sample, missing_field
from stoker.stages import Alloc, Gather, Surroundings
from stoker_plugins.collate.columns import label
from stoker_plugins.collate.pad import Padding

Measure = Literal["length", "pixels", "value"]
_DIMS = {"length": 1, "pixels": 2, "value": 1}


@dataclass(frozen=True)
class Bucket(Gather):
    """Make batches of samples of about one size, as many as the budget holds, padded.

    A sample goes into the bucket with the smallest edge that is not below its size. A bucket
    gives a batch as soon as it has floor(budget / edge) samples: so no batch, padded, costs
    more than the budget, whatever its unit: tokens, pixels, seconds. Which samples make a
    batch depends on their order alone.

    The fields named in `pad` are padded as by `collate.Pad`, all others stacked.
    """

    name: ClassVar[str] = "collate.bucket"
    example: ClassVar[str] = 'collate.Bucket("tokens", budget=4096)'

    by: str = param(help="field whose size counts")
    budget: float = param(help="what a padded batch may cost, in units of the size")
    measure: Measure = param(
        "length", "its size: items of its first dimension, height x width, or the number itself"
    )
    edges: tuple[float, ...] = param(
        (), "greatest size of each bucket, rising; (): each 1.25 times the one before"
    )
    max_items: int | None = param(None, "samples in a batch at the most", minimum=1)
    pad: str | tuple[str, ...] | None = param(
        None, "fields that are padded; None: the one that counts, unless by its value"
    )
    multiple_of: int = param(1, "round padded sizes up to a multiple", minimum=1)
    value: float | dict[str, float] = param(0.0, "what is filled in; a dict tells it by field")
    oversize: Literal["raise", "alone"] = param(
        "raise", "a sample beyond the budget: an error, or a batch of its own"
    )
    drop_last: bool = param(False, "leave out what an epoch's end leaves in the buckets")

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield what is wrong with budget and edges."""
        if not self.budget > 0:
            yield f"budget={describe_given(self.budget)}: allowed is a number above 0"
        rising = all(one < other for one, other in zip(self.edges, self.edges[1:], strict=False))
        if not rising or (self.edges and self.edges[0] <= 0):
            yield f"edges={describe_given(self.edges)}: allowed are numbers above 0 that rise"

    def size(self, sample: Sample) -> float:
        """Return what a sample counts as.

        Raises:
            KeyError: it lacks the field.
            TypeError: the field has no such size.
        """
        if self.by not in sample:
            raise missing_field(self.by, sample)
        value = sample[self.by]
        try:
            if self.measure == "value":
                size = float(value)
            elif self.measure == "pixels":
                size = float(value.shape[0] * value.shape[1])
            else:
                size = float(len(value))
        except (TypeError, AttributeError, IndexError, ValueError) as error:
            raise TypeError(
                f"field {self.by!r} holds {describe_given(value)}, which has no "
                f"measure={self.measure!r}"
            ) from error
        if not 0 <= size < math.inf:
            raise TypeError(f"field {self.by!r} has size {size:g}; allowed are numbers from 0 on")
        return size

    def edge(self, size: float) -> float:
        """Return the edge of the bucket for a size; beyond the last edge the size's own."""
        if self.edges:
            index = bisect.bisect_left(self.edges, size)
            return self.edges[index] if index < len(self.edges) else size
        if size <= 1:
            return 1.0
        edge = 1.25 ** math.ceil(math.log(size, 1.25) - 1e-9)
        return max(float(math.floor(edge)), size) if self.measure != "value" else max(edge, size)

    def capacity(self, edge: float) -> int:
        """Return the samples of a full batch of the bucket with this edge, at least 1."""
        most = max(1, math.floor(self.budget / edge + 1e-9))
        return most if self.max_items is None else min(most, self.max_items)

    def group(self, sizes: Sequence[Any], more: bool) -> Sequence[Sequence[int]]:
        """Return the batches of the buckets that are full; at an epoch's end of all."""
        buckets: dict[float, list[int]] = {}
        made: list[list[int]] = []
        for index, size in enumerate(sizes):
            edge = self.edge(size)
            bucket = buckets.setdefault(edge, [])
            bucket.append(index)
            if len(bucket) == self.capacity(edge):
                made.append(buckets.pop(edge))
        if not more and not self.drop_last:
            made += buckets.values()
        return made

    def assemble(self, samples: Sequence[Sample], alloc: Alloc) -> Batch:
        """Return the batch, its tensors in memory from `alloc`.

        Raises:
            ValueError: a sample beyond the budget, or fields that do not fit together.
            TypeError: a field that differs in type or dtype.
        """
        if self.oversize == "raise" and len(samples) == 1:
            size = self.size(samples[0])
            if size > self.budget:
                raise ValueError(
                    f"field {self.by!r} has size {size:g} in {label(samples, 0)}, beyond the "
                    f'budget={self.budget:g}; raise it, cut the sample, or say oversize="alone"'
                )
        fields = self.pad
        if fields is None:
            fields = () if self.measure == "value" else self.by
        padding = Padding(fields, _DIMS[self.measure], self.multiple_of, self.value)
        return padding.batch(samples, alloc)
