import pickle
from typing import Any

import numpy
import pytest

from stoker.errors import UsageError
from stoker_plugins.read.mixed import Row, mixed

WHO = numpy.array([0, 1, 0, 0, 1, 0])


def turns(number: int, turn: int) -> Any:
    return [f"{number}{turn}{place}" for place in range(2 + number)]


def test_each_goes_through_its_turns() -> None:
    addresses = mixed(WHO, 2, turns)
    assert list(addresses) == [
        *((0, "000"), (1, "100"), (0, "001"), (0, "010"), (1, "101"), (0, "011")),
    ]
    assert len(addresses) == 6


def test_no_turn_is_taken_that_is_not_needed() -> None:
    asked: list[Any] = []
    mixed(WHO, 3, lambda *which: asked.append(which) or turns(*which))  # type: ignore[func-returns-value]
    assert asked == [(0, 0), (0, 1), (1, 0)]


def test_it_can_be_sliced_and_travels() -> None:
    addresses = mixed(WHO, 2, turns)
    assert list(addresses[1:4]) == addresses.tolist()[1:4]
    assert pickle.loads(pickle.dumps(addresses)) == addresses
    assert dict.fromkeys(addresses)  # hashable
    assert addresses != mixed(1 - WHO, 2, turns)
    assert addresses != addresses.tolist()


def test_addresses_are_plain() -> None:
    numbers = mixed(WHO, 2, lambda number, turn: numpy.arange(3))  # type: ignore[arg-type,return-value]
    assert {(type(who), type(address)) for who, address in numbers} == {(int, int)}


@pytest.mark.parametrize("sizes", [[2, 1], [1, 3, 2]])
def test_turns_may_be_of_different_lengths(sizes: list[int]) -> None:
    row = Row()
    for turn, size in enumerate(sizes):
        row.add([(turn, place) for place in range(size)])
    expected = [(turn, place) for turn, size in enumerate(sizes) for place in range(size)]
    assert [row[i] for i in range(len(row))] == expected


def test_a_source_that_has_nothing_more_is_an_error_and_no_endless_loop() -> None:
    with pytest.raises(UsageError, match="source number 0 has no samples"):
        mixed(WHO, 2, lambda number, turn: [] if turn else ["a", "b"])
