"""A mergeable histogram of durations in logarithmic buckets."""

from __future__ import annotations

from collections.abc import Iterable

# Eight buckets an octave: a bucket is at most 12.5 % wide.
_SUB_BITS = 3
_SUB = 1 << _SUB_BITS
_BUCKETS = 64 * _SUB


class Histogram:
    """Counts durations in ns; merging is adding. Written by one thread, read by any."""

    __slots__ = ("counts",)

    def __init__(self, counts: Iterable[int] | None = None) -> None:
        self.counts = list(counts) if counts is not None else [0] * _BUCKETS

    def add(self, duration_ns: int, count: int = 1) -> None:
        """Count `count` events of `duration_ns` each."""
        self.counts[bucket_of(duration_ns)] += count

    def merge(self, other: Histogram) -> None:
        """Add another histogram's counts to this one."""
        self.counts = [
            mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)
        ]

    def minus(self, earlier: Histogram) -> Histogram:
        """Return what was counted since `earlier` was copied from this histogram."""
        return Histogram(now - then for now, then in zip(self.counts, earlier.counts, strict=True))

    @property
    def total(self) -> int:
        """Events counted."""
        return sum(self.counts)

    def quantile_ns(self, share: float) -> float | None:
        """Return the duration that `share` of the events do not exceed, or None without events.

        Interpolated within the bucket, so it is at most one bucket (12.5 %) off.
        """
        total = self.total
        if not total:
            return None
        rank, seen = share * total, 0
        for index, count in enumerate(self.counts):
            if count and seen + count >= rank:
                low, high = bounds_of(index)
                return low + (high - low) * max(0.0, rank - seen) / count
            seen += count
        return float(bounds_of(_BUCKETS - 1)[1])


def bucket_of(duration_ns: int) -> int:
    """Return the bucket that a duration falls in."""
    if duration_ns < _SUB:
        return max(duration_ns, 0)
    octave = duration_ns.bit_length() - 1 - _SUB_BITS
    return min((octave + 1) * _SUB + (duration_ns >> octave) - _SUB, _BUCKETS - 1)


def bounds_of(index: int) -> tuple[int, int]:
    """Return the durations [low, high) in ns that a bucket holds."""
    if index < _SUB:
        return index, index + 1
    octave, rest = divmod(index - _SUB, _SUB)
    return (_SUB + rest) << octave, (_SUB + rest + 1) << octave
