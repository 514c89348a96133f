"""The addresses of several sources in one order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, overload

import numpy
from numpy.typing import NDArray

from stoker.errors import UsageError
from stoker.sample import Address, plain
from stoker_plugins.read.picked import packed, same
from stoker_plugins.read.proportions import occurrences

Turns = Callable[[int, int], Sequence[Address]]
"""Gives the order of a source, by its number, the n-th time that it is gone through."""


def mixed(who: NDArray[Any], count: int, turns: Turns) -> Mixed:
    """Return the addresses of `count` sources, of whom `who` says whose turn each place is.

    Each goes through its own order, and through another turn of it when that is used up.

    Raises:
        UsageError: a source that is to come has no samples.
    """
    nth = numpy.empty(len(who), numpy.int64)
    rows = []
    for number, places in enumerate(occurrences(who, count)):
        nth[places] = numpy.arange(len(places))
        row = Row()
        while len(row) < len(places):
            turn = turns(number, len(row.turns))
            if not len(turn):  # else this would never end
                raise UsageError(f"source number {number} has no samples; leave it out")
            row.add(turn)
        rows.append(row)
    return Mixed(rows, packed(who, count), packed(nth, len(who)))


class Row:
    """The turns of one source, one after another."""

    def __init__(self) -> None:
        self.turns: list[Sequence[Address]] = []
        self._starts = [0]

    def __len__(self) -> int:
        return self._starts[-1]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row):
            return NotImplemented
        mine, others = self.turns, other.turns
        return len(mine) == len(others) and all(map(same, mine, others))

    __hash__ = None  # type: ignore[assignment]  # as of any sequence that is compared by content

    def add(self, turn: Sequence[Address]) -> None:
        """Go on with another turn."""
        self.turns.append(turn)
        self._starts = [0, *accumulate(map(len, self.turns))]

    def __getitem__(self, number: int) -> Address:
        turn = bisect_right(self._starts, number) - 1
        return plain(self.turns[turn][number - self._starts[turn]])


class Mixed(Sequence[tuple[int, Address]]):
    """Pairs of a source's number and an address of it."""

    def __init__(self, rows: Sequence[Row], who: Sequence[int], nth: Sequence[int]) -> None:
        self._rows, self._who, self._nth = rows, who, nth

    def __len__(self) -> int:
        return len(self._who)

    @overload
    def __getitem__(self, index: int) -> tuple[int, Address]: ...
    @overload
    def __getitem__(self, index: slice) -> Mixed: ...
    def __getitem__(self, index: int | slice) -> tuple[int, Address] | Mixed:
        if isinstance(index, slice):
            return Mixed(self._rows, self._who[index], self._nth[index])
        who = self._who[index]
        return who, self._rows[who][self._nth[index]]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mixed):
            return NotImplemented
        mine = (self._who, self._nth, self._rows)
        return mine == (other._who, other._nth, other._rows)

    __hash__ = None  # type: ignore[assignment]  # as of any sequence that is compared by content

    def tolist(self) -> list[tuple[int, Address]]:
        """Return the pairs unpacked, as arrays do, to send them elsewhere."""
        return list(self)
