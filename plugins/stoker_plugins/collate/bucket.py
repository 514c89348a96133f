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
from stoker_plugins.collate.fields import fields_faults, names_of
from stoker_plugins.collate.pad import Padding, value_faults

Measure = Literal["length", "pixels", "value"]
_DIMS = {"length": 1, "pixels": 2, "value": 1}
_GROWTH = 1.25
# Samples of no size cost nothing, and must not wait for an epoch's end.
_MOST_OF_NOTHING = 1024


@dataclass(frozen=True)
class Bucket(Gather):
    """Make batches of samples of about one size, as many as the budget holds, padded.

    A sample goes into the bucket with the smallest edge that is not below its size; pictures go
    by an edge for each side. A bucket gives a batch as soon as it has floor(budget / cost)
    samples, where the cost is that of a sample padded to the edge. So no batch, padded, costs
    more than the budget, whatever its unit: tokens, pixels, seconds. Which samples make a batch
    depends on their order alone.

    The fields named in `pad` are padded as by `collate.Pad`, all others stacked.
    """

    name: ClassVar[str] = "collate.bucket"
    example: ClassVar[str] = 'collate.Bucket("tokens", budget=4096)'

    by: str = param(help="field whose size counts")
    budget: float = param(help="what a padded batch may cost, in units of the size")
    measure: Measure = param(
        "length", "its size: items of its first dimension, its height x width, or the number itself"
    )
    edges: tuple[float, ...] = param(
        (), "greatest size (of pictures: side) of each bucket, rising; (): each 1.25 times the last"
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
        """Yield what is wrong with budget, edges and padding."""
        if not 0 < self.budget < math.inf:
            yield f"budget={describe_given(self.budget)}: allowed is a number above 0"
        rising = all(one < other for one, other in zip(self.edges, self.edges[1:], strict=False))
        if not rising or (self.edges and not 0 < self.edges[0] <= self.edges[-1] < math.inf):
            yield f"edges={describe_given(self.edges)}: allowed are numbers above 0 that rise"
        if self.pad not in (None, ()):
            yield from fields_faults(self._padded)
        yield from value_faults(self.value, self._padded)

    @property
    def _padded(self) -> tuple[str, ...]:
        """Names of the fields that are padded."""
        if self.pad is None:
            return () if self.measure == "value" else (self.by,)
        return names_of(self.pad)

    def size(self, sample: Sample) -> list[float]:
        """Return what a sample counts as: a number for each of its sides.

        Raises:
            KeyError: it lacks the field.
            TypeError: the field has no such size.
        """
        if self.by not in sample:
            raise missing_field(self.by, sample)
        value = sample[self.by]
        try:
            if self.measure == "value":
                sides = [float(value)]
            elif self.measure == "pixels":
                sides = [float(value.shape[0]), float(value.shape[1])]
            else:
                sides = [float(len(value))]
        except (TypeError, AttributeError, IndexError, ValueError) as error:
            raise TypeError(
                f"field {self.by!r} holds {describe_given(value)}, which has no "
                f"measure={self.measure!r}"
            ) from error
        if not all(0 <= side < math.inf for side in sides):
            raise TypeError(f"field {self.by!r} has size {sides}; allowed are numbers from 0 on")
        return sides

    def edge(self, side: float) -> float:
        """Return the edge of the bucket for a side; beyond the last edge the side's own."""
        if self.edges:
            index = bisect.bisect_left(self.edges, side)
            return self.edges[index] if index < len(self.edges) else side
        if side <= 0:
            return 0.0
        edge = _GROWTH ** math.ceil(math.log(side, _GROWTH) - 1e-9)
        return max(edge if self.measure == "value" else float(math.floor(edge)), side)

    def cost(self, sides: Sequence[float]) -> float:
        """Return what a sample padded to such sides costs of the budget."""
        if self.measure == "value":
            return sides[0]
        unit = self.multiple_of
        return math.prod(math.ceil(side / unit) * unit for side in sides)

    def capacity(self, edges: Sequence[float]) -> int:
        """Return the samples of a full batch of the bucket with these edges, at least 1."""
        cost = self.cost(edges)
        most = max(1, math.floor(self.budget / cost + 1e-9)) if cost else _MOST_OF_NOTHING
        return most if self.max_items is None else min(most, self.max_items)

    def group(self, sizes: Sequence[Any], more: bool) -> Sequence[Sequence[int]]:
        """Return the batches of the buckets that are full; at an epoch's end of all."""
        buckets: dict[tuple[float, ...], list[int]] = {}
        made: list[list[int]] = []
        for index, sides in enumerate(sizes):
            edges = tuple(map(self.edge, sides))
            bucket = buckets.setdefault(edges, [])
            bucket.append(index)
            if len(bucket) == self.capacity(edges):
                made.append(buckets.pop(edges))
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
            cost = self.cost(self.size(samples[0]))
            if cost > self.budget:
                raise ValueError(
                    f"field {self.by!r} costs {cost:g} in {label(samples, 0)}, beyond the "
                    f'budget={self.budget:g}; raise it, cut the sample, or say oversize="alone"'
                )
        padding = Padding(self._padded, _DIMS[self.measure], self.multiple_of, self.value)
        return padding.batch(samples, alloc)
