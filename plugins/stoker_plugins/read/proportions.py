"""Exact shares of an epoch, spread evenly over it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy
from numpy.typing import NDArray

from stoker.rng import Rng


def exact(weights: Sequence[Any]) -> list[Fraction]:
    """Return weights as shares of 1, without rounding: 0.1 is a tenth."""
    fractions = [Fraction(repr(float(weight))) for weight in weights]
    total = sum(fractions)
    return [fraction / total for fraction in fractions]


def quotas(shares: Sequence[Fraction], count: int, rng: Rng) -> list[int]:
    """Return how often each comes among `count`: its share, rounded up or down.

    By the largest remainder; among equal remainders it is drawn who is rounded up, so
    equal shares differ by one at most, and not always in favour of the same.
    """
    floors = [int(share * count) for share in shares]
    draw = rng.numpy.permutation(len(shares)).tolist()
    by_remainder = sorted(
        range(len(shares)), key=lambda i: (floors[i] - shares[i] * count, draw[i])
    )
    for i in by_remainder[: count - sum(floors)]:
        floors[i] += 1
    return floors


def spread(counts: Sequence[int], rng: Rng) -> NDArray[Any]:
    """Return who comes at each place: `i` as often as `counts[i]` says, evenly spread.

    Each of the n occurrences of one is put into its own n-th of the epoch, at a place drawn
    there (stratified sampling). So among the first t of N places `i` came t * share times,
    and less than 1 + share * len(counts) away from it.
    """
    who = numpy.repeat(numpy.arange(len(counts)), counts)
    starts = numpy.cumsum(counts) - counts
    number = numpy.arange(len(who)) - numpy.repeat(starts, counts)
    when = (number + rng.numpy.random(len(who))) / numpy.repeat(counts, counts)
    order: NDArray[Any] = who[numpy.argsort(when, kind="stable")]
    return order


def occurrences(who: NDArray[Any], count: int) -> Iterator[NDArray[Any]]:
    """Yield, for each of `count` in turn, the places at which it comes, in order."""
    places = numpy.argsort(who, kind="stable")
    ends = numpy.cumsum(numpy.bincount(who, minlength=count))
    yield from numpy.split(places, ends[:-1])


def turns(members: NDArray[Any], count: int, rng: Rng) -> NDArray[Any]:
    """Return `count` of some members, each as often as any other, or once more.

    All come once, in an order drawn, before any comes again.
    """
    rounds = -(-count // len(members))
    drawn = [rng.numpy.permutation(members) for _ in range(rounds)]
    return numpy.concatenate([*drawn, members[:0]])[:count]
