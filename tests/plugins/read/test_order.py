import json
from array import array

from stoker.rng import Rng
from stoker_plugins.read.order import order


def at(epoch: int, seed: int = 3) -> Rng:
    return Rng(seed, "read.x").move(epoch, 0)


def test_without_shuffle_it_counts() -> None:
    assert order(5, False, at(0)) == range(5)


def test_shuffle_depends_on_seed_and_epoch_alone() -> None:
    first = order(1000, True, at(0))
    assert list(first) == list(order(1000, True, at(0)))
    assert list(first) != list(order(1000, True, at(1)))
    assert list(first) != list(order(1000, True, at(0, seed=4)))
    assert sorted(first) == list(range(1000))


def test_it_is_packed_and_gives_plain_integers() -> None:
    shuffled = order(1000, True, at(0))
    assert isinstance(shuffled, array)
    assert shuffled.itemsize == 4
    assert type(shuffled[0]) is int
    assert json.dumps(shuffled[0])


def test_nothing_has_an_order() -> None:
    assert len(order(0, True, at(0))) == 0
