from collections import Counter
from fractions import Fraction

import numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.rng import Rng
from stoker_plugins.read.proportions import exact, occurrences, quotas, spread, turns

WEIGHTS = st.lists(st.integers(1, 50), min_size=1, max_size=8)


def at(epoch: int, seed: int = 3) -> Rng:
    return Rng(seed, "read.x").move(epoch, 0)


def test_shares_are_not_rounded() -> None:
    assert exact([0.7, 0.2, 0.1]) == [Fraction(7, 10), Fraction(1, 5), Fraction(1, 10)]
    assert exact([1e-7, numpy.float32(1)])[0] == Fraction(1, 10**7 + 1)


@settings(max_examples=60, deadline=None)
@given(weights=WEIGHTS, count=st.integers(0, 300), seed=st.integers(0, 5))
def test_a_quota_is_the_share_rounded_up_or_down(weights: list[int], count: int, seed: int) -> None:
    shares = exact(weights)
    found = quotas(shares, count, at(0, seed))
    assert sum(found) == count
    assert all(abs(own - share * count) < 1 for own, share in zip(found, shares, strict=True))


def test_equal_shares_are_not_always_rounded_up_for_the_same() -> None:
    shares = exact([1, 1, 1])
    ups = {tuple(quotas(shares, 10, at(epoch))) for epoch in range(30)}
    assert ups == {(4, 3, 3), (3, 4, 3), (3, 3, 4)}


@settings(max_examples=60, deadline=None)
@given(counts=st.lists(st.integers(0, 60), min_size=1, max_size=8), seed=st.integers(0, 5))
def test_every_beginning_is_near_its_share(counts: list[int], seed: int) -> None:
    order = spread(counts, at(0, seed))
    total = sum(counts)
    assert numpy.bincount(order, minlength=len(counts)).tolist() == counts
    for number, count in enumerate(counts):
        seen = numpy.cumsum(order == number)
        t = numpy.arange(1, total + 1)
        bound = 1 + count / max(total, 1) * len(counts)
        assert (abs(seen - t * count / max(total, 1)) < bound + 1e-9).all()


def test_equal_counts_come_in_rounds() -> None:
    order = spread([4, 4, 4], at(0)).reshape(4, 3)
    assert (numpy.sort(order) == [0, 1, 2]).all()
    assert len({tuple(one) for one in order.tolist()}) > 1  # and in no fixed order


def test_occurrences_are_the_places_of_each() -> None:
    places = list(occurrences(numpy.array([2, 0, 2, 2]), 4))
    assert [one.tolist() for one in places] == [[1], [], [0, 2, 3], []]


def test_in_turns_all_come_before_any_comes_again() -> None:
    members = numpy.array([5, 7, 9])
    drawn = turns(members, 8, at(0)).tolist()
    assert sorted(drawn[:3]) == sorted(drawn[3:6]) == [5, 7, 9]
    assert set(Counter(drawn).values()) == {2, 3}
    assert turns(members, 0, at(0)).tolist() == []
    few = {turns(members, 1, at(epoch)).item() for epoch in range(30)}
    assert few == {5, 7, 9}
