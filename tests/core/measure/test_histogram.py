"""The histogram against exact quantiles."""

from __future__ import annotations

import copy
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.measure.histogram import Histogram, bounds_of, bucket_of

DURATIONS = st.lists(
    st.one_of(st.integers(0, 50), st.integers(0, 10**7), st.integers(0, 2**62)),
    min_size=1,
    max_size=60,
)
SHARES = st.sampled_from([0.0, 0.01, 0.25, 0.5, 0.9, 0.99, 1.0])


def counted(durations: list[int]) -> Histogram:
    histogram = Histogram()
    for duration in durations:
        histogram.add(duration)
    return histogram


def exact(durations: list[int], share: float) -> int:
    """Return the smallest duration that `share` of them do not exceed."""
    return sorted(durations)[max(math.ceil(share * len(durations)) - 1, 0)]


@given(st.integers(0, 2**63))
def test_a_duration_falls_into_the_bucket_that_holds_it(duration: int) -> None:
    low, high = bounds_of(bucket_of(duration))
    assert low <= duration < high
    assert high - low <= max(1, low / 8), "a bucket is at most 12.5 % wide"


def test_buckets_lie_side_by_side() -> None:
    for index in range(400):
        low, high = bounds_of(index)
        assert bucket_of(low) == bucket_of(high - 1) == index
        assert bounds_of(index + 1)[0] == high


@given(DURATIONS, SHARES)
@settings(deadline=None)
def test_a_quantile_lies_in_the_bucket_of_the_exact_one(durations: list[int], share: float) -> None:
    found = counted(durations).quantile_ns(share)
    assert found is not None
    right = exact(durations, share)
    low, high = bounds_of(bucket_of(right))
    assert low <= found <= high
    assert abs(found - right) <= max(1.0, right / 8)


@given(DURATIONS)
@settings(deadline=None)
def test_quantiles_rise(durations: list[int]) -> None:
    histogram = counted(durations)
    found = [histogram.quantile_ns(share / 20) or 0.0 for share in range(21)]
    assert found == sorted(found)


@given(DURATIONS, DURATIONS)
@settings(deadline=None)
def test_merging_is_counting_together_and_minus_takes_it_back(
    first: list[int], second: list[int]
) -> None:
    merged = counted(first)
    earlier = copy.deepcopy(merged)
    other = counted(second)
    merged.merge(other)
    assert merged.counts == counted(first + second).counts
    assert merged.minus(earlier).counts == other.counts
    assert merged.total == len(first) + len(second)
    assert other.counts == counted(second).counts, "what is merged in stays as it was"


@given(st.integers(0, 10**9), st.integers(0, 1000))
def test_a_chunk_counts_as_its_items(duration: int, count: int) -> None:
    at_once = Histogram()
    at_once.add(duration, count)
    assert at_once.total == count
    assert at_once.counts[bucket_of(duration)] == count


def test_nothing_counted_is_unknown_and_not_zero() -> None:
    assert Histogram().quantile_ns(0.99) is None
    assert Histogram().total == 0
    counted_out = counted([5]).minus(counted([5]))
    assert counted_out.quantile_ns(0.5) is None


@pytest.mark.parametrize("share", [0.5, 0.99, 1.0])
def test_outliers_show_in_the_tail_and_not_in_the_middle(share: float) -> None:
    histogram = counted([1_000] * 98 + [1_000_000] * 2)
    found = histogram.quantile_ns(share)
    assert found is not None
    right = 1_000 if share == 0.5 else 1_000_000
    assert abs(found - right) <= right / 8


def test_what_lies_outside_is_counted_at_the_edge() -> None:
    histogram = counted([-5, 2**80])
    assert histogram.total == 2
    assert histogram.counts[0] == histogram.counts[-1] == 1
