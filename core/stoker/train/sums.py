"""Sums over valid items and their counts: what losses and metrics are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from stoker.errors import UsageError, describe_given


def sum_and_count(result: Any, source: str) -> tuple[Any, Any]:
    """Return the two parts of what a task's function gave, both scalars (tensors or numbers).

    Args:
        result: what was returned.
        source: which function, for the message.

    Raises:
        UsageError: it is not a scalar sum and a scalar count.
    """
    pair = result if isinstance(result, tuple | list) else ()
    if len(pair) != 2 or not all(map(_is_scalar, pair)):
        raise UsageError(
            f"{source} returned {_described(result)}; it must return two scalars: the sum over "
            "valid items, and their count (cross_entropy(..., reduction='sum'), len(labels))"
        )
    return pair[0], pair[1]


def loss_and_count(loss: Callable[..., Any], model: Any, batch: Any) -> tuple[torch.Tensor, Any]:
    """Return a batch's loss sum, with its graph, and its count of valid items.

    Raises:
        UsageError: the loss gave something else, or nothing that gradients can flow from.
    """
    total, count = sum_and_count(loss(model, batch), "Task.loss")
    if not isinstance(total, torch.Tensor) or not total.requires_grad:
        raise UsageError(
            "Task.loss returned a sum without gradients: compute it from the model's output, "
            "without detach(), item() or no_grad()"
        )
    # Half precision would lose items when pieces are added up.
    return (total.float() if total.dtype.itemsize < 4 else total), count


def at_least_one(count: Any) -> Any:
    """Return a count to divide by: one where all items were masked, so that 0 / 0 is 0."""
    return count + (count == 0)


class RunningSum:
    """Sums and counts added up. Tensors stay on their device, so adding never waits."""

    def __init__(self) -> None:
        self.total: Any = 0.0
        self.count: Any = 0

    def add(self, total: Any, count: Any) -> None:
        """Add a sum over `count` items."""
        self.total = self.total + total
        self.count = self.count + count

    def mean(self) -> Any:
        """Return sum / count, a scalar tensor or number; 0 where nothing was counted."""
        return self.total / at_least_one(self.count)


def _is_scalar(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.ndim == 0
    return isinstance(value, int | float)


def _described(result: Any) -> str:
    if isinstance(result, torch.Tensor):
        return f"a tensor of shape {tuple(result.shape)}"
    if isinstance(result, tuple | list):
        return f"({', '.join(map(_described, result))})"
    return describe_given(result)
