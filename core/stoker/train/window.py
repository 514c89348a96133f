"""The accumulation window: what one optimizer update gathers, and its normalisation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from stoker.train.sums import at_least_one


class Window:
    """The batches of one update. Its gradients are those of the mean over all valid items.

    How many items a window will have is known only at its end, and on the device. So each
    piece runs backward on its sum divided by a guess, and the end multiplies the gradients by
    guess / items. The guess is a power of two, which costs no rounding: results do not depend
    on it. A window of one piece needs no guess.

    Args:
        size: batches that one update gathers.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.batches = 0
        self._items: Any = 0
        self._guess: float | None = None

    @property
    def full(self) -> bool:
        """All its batches are in."""
        return self.batches >= self.size

    def enter(self, samples: int, pieces: int) -> None:
        """Take in a batch of `samples`, which comes in `pieces`."""
        if self.batches == 0:
            alone = self.size == 1 and pieces == 1
            self._guess = None if alone else _power_of_two(samples * self.size)
        self.batches += 1

    def share(self, loss: torch.Tensor, count: Any) -> torch.Tensor:
        """Return what a piece of the entered batch runs backward on, a scalar.

        Args:
            loss: sum over the piece's valid items.
            count: number of them.
        """
        self._items = self._items + count
        return loss / (at_least_one(count) if self._guess is None else self._guess)

    def normalise(self, parameters: Iterable[torch.Tensor]) -> None:
        """Make the gradients those of the window's mean, whatever its number of items."""
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        if self._guess is None or not gradients:
            return
        factor = self._guess / at_least_one(self._items)
        if isinstance(factor, torch.Tensor):
            factor = factor.to(gradients[0].device)
        torch._foreach_mul_(gradients, factor)

    def clear(self) -> None:
        """Begin the next window."""
        self.batches, self._items, self._guess = 0, 0, None

    def state_dict(self) -> dict[str, Any]:
        """Return how far the window is; its gradients are the model's to keep."""
        return {"batches": self.batches, "items": self._items, "guess": self._guess}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on in the middle of a window."""
        self.batches, self._items = state["batches"], state["items"]
        self._guess = state["guess"]


def _power_of_two(near: int) -> float:
    return 2.0 ** round(math.log2(max(1, near)))
