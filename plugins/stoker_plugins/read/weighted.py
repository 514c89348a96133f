"""Samples drawn by weight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy
from numpy.typing import NDArray

from stoker.errors import UsageError
from stoker.parameters import param
from stoker.rng import Rng
from stoker.sample import Address
from stoker.stages import Caution
from stoker_plugins.read.nested import Reordering
from stoker_plugins.read.persample import by_place, mark
from stoker_plugins.read.picked import pick


@dataclass(frozen=True, eq=False, repr=False)
class Weighted(Reordering):
    """Draws samples of another source by weight, anew in each epoch.

    With replacement a sample comes by its share of all weights at each draw. Without, no
    sample comes twice: which ones come is drawn by weight, one after another, and they
    come in a uniformly drawn order, so that heavy ones are not seen first. A sample of
    weight 0 never comes.

    Listed weights belong to the source's samples by place, so its order has to be the
    same in each epoch; a function is given the address, whatever the order, and is called
    for each sample (once where the source's order stays, else in every epoch).
    """

    name: ClassVar[str] = "read.weighted"
    example: ClassVar[str] = 'read.Weighted(read.Files("photos/train"), weights="weights.npy")'

    weights: Any = param(help="one a sample: a list, an array, a .npy file, or a function")
    num_samples: int | None = param(
        None, "draws in an epoch; None: as many as the source has (without 0)", minimum=1
    )
    replacement: bool = param(True, "a sample may come several times in an epoch")

    def remarks(self) -> Iterator[str]:
        """Yield what is wrong with the weights."""
        if by_place(self.weights):
            yield from self.unsteady("weights")
        if not self.replacement and self.num_samples is None:
            yield Caution(
                "without replacement and without num_samples every sample comes once, whatever its "
                "weight; give num_samples"
            )

    def addresses(self, epoch: int, rng: Rng) -> Sequence[Address]:
        """Return the addresses drawn for this epoch.

        Raises:
            UsageError: the weights are not one finite number of at least 0 a sample, or
                too few are above 0.
        """
        base = self.base(epoch, rng)
        if not len(base):
            return base
        weights = as_weights(self.values(self.weights, base, "weights"), "weights")
        positive = int(numpy.count_nonzero(weights))
        count = self.num_samples or (len(base) if self.replacement else positive)
        if self.replacement:
            return pick(base, with_replacement(weights, count, rng))
        if count > positive:
            raise UsageError(
                f"num_samples={count}: without replacement at most the {positive:,} samples of a "
                "weight above 0 can be drawn; lower it, or set replacement=True"
            )
        return pick(base, without_replacement(weights, count, rng))

    def content(self) -> str:
        """Return what tells the source's data, and the file of weights."""
        return f"{self.source.content()} {mark(self.weights)}"


def as_weights(values: Any, what: str) -> NDArray[numpy.float64]:
    """Return weights as an array.

    Raises:
        UsageError: one is no finite number of at least 0, or none is above 0.
    """
    try:
        weights = numpy.asarray(values, numpy.float64)
    except (TypeError, ValueError):
        raise UsageError(f"{what} are not all numbers; give numbers of at least 0") from None
    wrong = numpy.flatnonzero(~(numpy.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        raise UsageError(
            f"{what}: number {wrong[0]} is {weights[wrong[0]]} ({len(wrong):,} such); allowed are "
            "finite numbers of at least 0"
        )
    if not weights.any():
        raise UsageError(f"{what} are all 0, so that no sample could be drawn")
    return weights


def with_replacement(weights: NDArray[numpy.float64], count: int, rng: Rng) -> NDArray[Any]:
    """Return the numbers of `count` draws, each by weight (inverse transform sampling)."""
    # Divided first: the sum of huge weights would overflow.
    ends = numpy.cumsum(weights / weights.max())
    found = numpy.searchsorted(ends, rng.numpy.random(count) * ends[-1], side="right")
    # A product may be rounded up to the sum itself, behind the last one of any weight.
    last = numpy.flatnonzero(weights)[-1]
    drawn: NDArray[Any] = numpy.minimum(found, last)
    return drawn


def without_replacement(weights: NDArray[numpy.float64], count: int, rng: Rng) -> NDArray[Any]:
    """Return the numbers of `count` different samples, drawn by weight, in uniform order.

    By the smallest of exponential variates of rate `weight`: Efraimidis and Spirakis,
    "Weighted random sampling with a reservoir", 2006 (their keys, as logarithms).
    """
    positive = numpy.flatnonzero(weights)
    keys = rng.numpy.standard_exponential(len(positive))
    # In logarithms, since a tiny weight would overflow a quotient.
    keys = numpy.log(keys) - numpy.log(weights[positive])
    if count < len(positive):
        positive = positive[numpy.argpartition(keys, count - 1)[:count]]
    return rng.numpy.permutation(positive)
