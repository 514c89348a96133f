"""Normalisation over a window."""

from __future__ import annotations

import pytest
import torch

from stoker.train.window import Window


def gradient(window: Window, parts: list[tuple[list[float], float]], samples: int) -> torch.Tensor:
    """The gradient of a window with one batch a part: values that are summed, and their count."""
    weight = torch.nn.Parameter(torch.ones((), dtype=torch.float64))
    for values, count in parts:
        window.enter(samples, 1)
        window.share(weight * sum(values), torch.tensor(count)).backward()
    window.normalise([weight])
    window.clear()
    assert weight.grad is not None
    return weight.grad


@pytest.mark.parametrize("samples", [1, 3, 8, 1000])
def test_the_guess_does_not_change_one_bit(samples: int) -> None:
    parts = [([0.1, 0.7], 2.0), ([1 / 3], 1.0)]
    assert torch.equal(gradient(Window(2), parts, samples), gradient(Window(2), parts, 5))


def test_a_window_of_one_piece_is_exactly_its_mean() -> None:
    weight = torch.nn.Parameter(torch.ones(()))
    (weight * 0.7 / 3).backward()
    assert weight.grad is not None
    plain = weight.grad.clone()
    weight.grad = None
    window = Window(1)
    window.enter(3, 1)
    window.share(weight * 0.7, torch.tensor(3)).backward()
    window.normalise([weight])
    assert torch.equal(weight.grad, plain)


def test_a_short_window_is_divided_by_what_it_has() -> None:
    full = gradient(Window(2), [([2.0], 1.0), ([4.0], 3.0)], 4)
    assert torch.equal(gradient(Window(4), [([2.0], 1.0), ([4.0], 3.0)], 4), full)


def test_all_items_masked_give_zero_and_not_nan() -> None:
    assert gradient(Window(2), [([0.0], 0.0), ([0.0], 0.0)], 4) == 0
    assert gradient(Window(1), [([0.0], 0.0)], 4) == 0


def test_it_is_full_after_its_batches_and_empty_once_cleared() -> None:
    window = Window(2)
    window.enter(4, 1)
    assert not window.full
    window.enter(4, 1)
    assert window.full
    window.clear()
    assert (window.full, window.batches) == (False, 0)


def test_without_gradients_there_is_nothing_to_do() -> None:
    window = Window(2)
    window.enter(4, 1)
    frozen = torch.nn.Parameter(torch.ones(2))
    window.normalise([frozen])
    assert frozen.grad is None
