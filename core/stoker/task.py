"""The task: what is trained, as factories that run after seeding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stoker.sample import Batch

if TYPE_CHECKING:
    import torch

    Sum = tuple[torch.Tensor | float, torch.Tensor | int]


@dataclass(frozen=True)
class Task:
    """A model with its loss, optimizer and metrics.

    Args:
        model: makes the model.
        loss: `loss(model, batch)` runs the forward pass and returns the loss summed
            over valid items, and their count; both scalars (tensors).
        optimizer: makes the optimizer from the parameters that need gradients.
        schedule: makes the learning-rate schedule; it moves once an update.
        metrics: `metrics(model, batch)` returns, by name, a sum and a count as `loss` does;
            evaluation reports sum / count over the whole set.
        separable: the loss adds up over parts of a batch. Contrastive losses do not:
            set False, and policies that split a batch are refused.
        max_grad_norm: clip gradients to this 2-norm before each update; None leaves them.
    """

    model: Callable[[], torch.nn.Module]
    loss: Callable[[Any, Batch], Sum]
    optimizer: Callable[[Iterable[Any]], torch.optim.Optimizer] | None = None
    schedule: Callable[[Any], Any] | None = None
    metrics: Callable[[Any, Batch], Mapping[str, Sum]] | None = None
    separable: bool = True
    max_grad_norm: float | None = None

    def __repr__(self) -> str:
        parts = [
            f"{name}={getattr(value, '__qualname__', value)}"
            for name, value in vars(self).items()
            if value is not None and (name != "separable" or not value)
        ]
        return f"Task({', '.join(parts)})"
