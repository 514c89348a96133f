"""Addresses picked out of others by number: an epoch's order over a source's own."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, overload

import numpy

from stoker.sample import Address, plain


def same(one: Any, other: Any) -> bool:
    """Say whether two values are equal, where arrays may be among them."""
    if one is other:
        return True
    if isinstance(one, numpy.ndarray) or isinstance(other, numpy.ndarray):
        return type(one) is type(other) and bool(numpy.array_equal(one, other))
    try:
        return bool(one == other)
    except Exception:  # other people's objects, which may refuse to be compared
        return False


def packed(numbers: Any, count: int) -> array[int]:
    """Return integers below `count` as an array of plain ones, 4 bytes each (8 past 2**32)."""
    kind = "I" if count <= 1 << 32 else "Q"
    narrow = array(kind)
    narrow.frombytes(numpy.asarray(numbers).astype(kind).tobytes())
    return narrow


def pick(base: Sequence[Address], numbers: Any) -> Sequence[Address]:
    """Return the addresses of `base` that numbers name, in the order of the numbers."""
    if isinstance(base, range) and base == range(len(base)):
        return packed(numbers, len(base))
    return Picked(base, packed(numbers, len(base)))


class Picked(Sequence[Address]):
    """Addresses that stay where they are, and the numbers of those that are meant."""

    def __init__(self, base: Sequence[Address], numbers: Sequence[int]) -> None:
        self._base, self._numbers = base, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> Address: ...
    @overload
    def __getitem__(self, index: slice) -> Picked: ...
    def __getitem__(self, index: int | slice) -> Address | Picked:
        if isinstance(index, slice):
            return Picked(self._base, self._numbers[index])
        return plain(self._base[self._numbers[index]])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Picked):
            return NotImplemented
        return same(self._base, other._base) and same(self._numbers, other._numbers)

    __hash__ = None  # type: ignore[assignment]  # as of any sequence that is compared by content

    def tolist(self) -> list[Address]:
        """Return the addresses unpacked, as arrays do, to send them elsewhere."""
        return list(self)
