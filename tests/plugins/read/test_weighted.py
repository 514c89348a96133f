import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy
import pytest

from stoker.errors import UsageError
from stoker.plugins import host
from stoker.rng import Rng
from stoker.testing import check_stage, order, read_all
from stoker_plugins.read import Dataset, Files, Repeated, Synthetic, Weighted
from stoker_plugins.read.weighted import with_replacement, without_replacement
from tests.plugins.read.helpers import cautions, problems


def at(epoch: int, seed: int = 3) -> Rng:
    return Rng(seed, "read.weighted").move(epoch, 0)


def test_contract() -> None:
    check_stage(Weighted(Synthetic(3), weights=[1, 2, 3]))
    check_stage(Weighted(Synthetic(3), weights=numpy.ones(3), num_samples=2, replacement=False))
    assert host().stage_class("read.weighted") is Weighted


def test_it_draws_by_weight_and_never_what_weighs_nothing() -> None:
    source = Weighted(Synthetic(4), weights=[0, 1, 3, 0], num_samples=4000)
    counts = Counter(order(source))
    assert set(counts) == {1, 2}
    assert abs(counts[2] - 3000) < 5 * math.sqrt(4000 * 0.75 * 0.25)


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    source = Weighted(Synthetic(50), weights=range(1, 51))
    assert len(order(source)) == 50
    assert order(source) == order(source)
    assert order(source) != order(source, epoch=1)
    assert order(source) != order(source, seed=1)


def test_without_replacement_each_comes_once_by_successive_draws() -> None:
    """Of weights 1, 2 and 3, two are drawn: the pair (i, j) comes as successive draws say."""
    weights, draws = numpy.array([1.0, 2.0, 3.0, 0.0]), 6000
    pairs = Counter(
        frozenset(without_replacement(weights, 2, at(epoch)).tolist()) for epoch in range(draws)
    )
    expected = {
        frozenset((i, j)): weights[i] / 6 * weights[j] / (6 - weights[i])
        + weights[j] / 6 * weights[i] / (6 - weights[j])
        for i, j in ((0, 1), (0, 2), (1, 2))
    }
    assert set(pairs) == set(expected)
    for pair, share in expected.items():
        assert abs(pairs[pair] - share * draws) < 5 * math.sqrt(draws * share * (1 - share))


def test_without_replacement_heavy_ones_are_not_seen_first() -> None:
    weights = numpy.array([1.0] * 50 + [1000.0] * 50)
    firsts = [without_replacement(weights, 100, at(epoch))[0] >= 50 for epoch in range(400)]
    assert abs(sum(firsts) - 200) < 5 * 10


def test_without_replacement_the_default_is_all_that_weigh() -> None:
    source = Weighted(Synthetic(4), weights=[0, 1, 3, 0], replacement=False)
    assert sorted(order(source)) == [1, 2]
    assert "every sample comes once" in cautions(source)[0]
    few = Weighted(Synthetic(40), weights=[1] * 40, replacement=False, num_samples=30)
    assert len(set(order(few))) == 30
    assert set(order(few)) != set(order(few, epoch=1))
    assert problems(few) == cautions(few) == []


@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1.0, 1e307])
def test_weights_of_any_size(scale: float) -> None:
    weights = numpy.full(30, scale)
    weights[7] = 0
    drawn = with_replacement(weights, 5000, at(0))
    assert set(drawn.tolist()) == set(range(30)) - {7}
    assert sorted(without_replacement(weights, 29, at(0))) == sorted(set(range(30)) - {7})


class Draws:
    """A generator whose uniform draws are all the same."""

    def __init__(self, drawn: float) -> None:
        self.numpy = self
        self._drawn = drawn

    def random(self, count: int) -> Any:
        return numpy.full(count, self._drawn)


@pytest.mark.parametrize(("drawn", "expected"), [(0.0, 1), (0.5, 2), (1.0, 2)])
def test_at_the_edge_of_a_share_it_is_no_sample_of_weight_0(drawn: float, expected: int) -> None:
    """A draw of 1 stands for a product that is rounded up to the sum of all weights."""
    weights = numpy.array([0.0, 1.0, 1.0, 0.0])
    assert with_replacement(weights, 1, Draws(drawn)).tolist() == [expected]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("weights", "more", "says"),
    [
        ([1, 2], {}, "weights has 2 values and the source 3 samples"),
        ([1, -1, 1], {}, "number 1 is -1.0.*at least 0"),
        ([1, 1, float("nan")], {}, "number 2 is nan"),
        ([1, float("inf"), 1], {}, "number 1 is inf"),
        ([0, 0, 0], {}, "weights are all 0"),
        (["a", "b", "c"], {}, "weights are not all numbers"),
        ([1, 1, 0], {"num_samples": 3, "replacement": False}, "at most the 2 samples"),
    ],
)
def test_what_is_wrong_is_one_line(weights: Any, more: dict[str, Any], says: str) -> None:
    source = Weighted(Synthetic(3), weights=weights, **more)
    with pytest.raises(UsageError, match=says) as error:
        order(source)
    assert problems(source) == [str(error.value)]


def test_listed_weights_need_an_order_that_stays() -> None:
    (said,) = problems(Weighted(Synthetic(30, shuffle=True), weights=[1] * 30))
    assert "leave its shuffle=False (read.weighted draws an order itself)" in said
    assert problems(Weighted(Synthetic(30, shuffle=True), weights=lambda address: 1)) == []


def test_a_function_goes_by_address_whatever_the_order(tmp_path: Path) -> None:
    for name in ("cat/a.jpg", "dog/a.jpg", "dog/b.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    source = Weighted(Files(tmp_path, shuffle=True), weights=lambda pair: pair[0], num_samples=60)
    for epoch in range(2):
        found = Counter(sample["__key__"] for sample in read_all(source, epoch=epoch))
        assert set(found) == {"dog/a", "dog/b"}


def test_over_a_source_that_draws_it_draws_of_that_epochs_samples() -> None:
    source = Weighted(Repeated(Synthetic(90, shuffle=True)), weights=lambda address: 1)
    for epoch in range(2):
        inside = Counter(order(source, epoch=epoch))
        assert len(inside) <= 30
    assert set(order(source)) != set(order(source, epoch=1))


def test_a_functions_weights_follow_the_order_of_each_epoch() -> None:
    source = Weighted(Dataset(range(30), shuffle=True), weights=lambda number: number % 3)
    for epoch in range(3):
        assert all(number % 3 for number in order(source, epoch=epoch))
