import pickle

import numpy
import pytest

from stoker_plugins.read.picked import Picked, packed, pick, same


def test_numbers_are_packed_and_plain() -> None:
    numbers = packed(numpy.array([3, 1, 2]), 4)
    assert (numbers.itemsize, list(numbers), type(numbers[0])) == (4, [3, 1, 2], int)
    assert packed([2**33], 2**34).tolist() == [2**33]


def test_of_a_range_the_numbers_are_the_addresses() -> None:
    assert list(pick(range(5), [4, 0, 4])) == [4, 0, 4]
    assert list(pick(range(10, 15), [4, 0, 4])) == [14, 10, 14]


@pytest.mark.parametrize("base", [["a", "b", "c"], numpy.array([7, 8, 9])])
def test_others_are_looked_up_and_can_be_sliced(base: object) -> None:
    picked = pick(base, [2, 0, 2, 1])  # type: ignore[arg-type]
    assert isinstance(picked, Picked)
    whole = list(picked)
    assert type(whole[0]) in (str, int)  # none of NumPy's
    assert whole == [base[i] for i in (2, 0, 2, 1)]  # type: ignore[index]
    assert list(picked[1:3]) == whole[1:3]
    assert picked.tolist() == whole
    assert list(pickle.loads(pickle.dumps(picked))) == whole


def test_equal_by_what_they_hold() -> None:
    base = numpy.array([7, 8])
    assert pick(base, [1, 0]) == pick(base.copy(), [1, 0])
    assert pick(base, [1, 0]) != pick(base, [0, 1])
    assert pick(base, [1, 0]) != [8, 7]


def test_same_compares_arrays_and_what_refuses_to_be_compared() -> None:
    class Refuses:
        def __eq__(self, other: object) -> bool:
            raise TypeError("no")

    refuses = Refuses()
    assert same(numpy.array([1, 2]), numpy.array([1, 2]))
    assert not same(numpy.array([1, 2]), numpy.array([1, 3]))
    assert not same(numpy.array([1, 2]), [1, 2])
    assert same(refuses, refuses)
    assert not same(refuses, Refuses())
