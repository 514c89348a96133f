"""An epoch's order, packed."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from stoker.rng import Rng


def order(count: int, shuffle: bool, rng: Rng) -> Sequence[int]:
    """Return the indices of `count` samples in this epoch's order, 8 bytes each or less.

    Plain integers come out of it, not NumPy's: other people's datasets may index by
    them, and print them.
    """
    if not shuffle:
        return range(count)
    return array("q", rng.numpy.permutation(count).astype("int64", copy=False).tobytes())
