"""An epoch's order, packed."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from stoker.rng import Rng


def order(count: int, shuffle: bool, rng: Rng) -> Sequence[int]:
    """Return the indices of `count` samples in this epoch's order, 4 bytes each (8 past 2**32).

    Plain integers come out of it, not NumPy's: other people's datasets may index by
    them, and print them.
    """
    if not shuffle:
        return range(count)
    kind = "I" if count <= 1 << 32 else "Q"
    packed = array(kind)
    packed.frombytes(rng.numpy.permutation(count).astype(kind).tobytes())
    return packed
