"""What loading a state needs: nothing missing, nothing left over, and gradients of a window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from stoker.errors import CheckpointError, StokerError, reason_of


def same_names(what: str, state: Any, wanted: Mapping[str, Any]) -> None:
    """Refuse a state whose parts are not those that are wanted.

    Raises:
        CheckpointError: parts are missing, or nobody takes them.
    """
    if not isinstance(state, Mapping):
        raise CheckpointError(f"{what} is missing from the checkpoint")
    missing = [name for name in wanted if name not in state]
    if missing:
        raise CheckpointError(f"{what} lacks {', '.join(missing)}: going on would change the run")
    left = [str(name) for name in state if name not in wanted]
    if left:
        raise CheckpointError(f"{what} holds {', '.join(left)}, which nothing here takes over")


@contextmanager
def fitting(what: str) -> Iterator[None]:
    """Tell, of what is loaded inside, that it does not fit.

    Raises:
        CheckpointError: loading failed.
    """
    try:
        yield
    except StokerError:
        raise
    except Exception as error:
        raise CheckpointError(
            f"the checkpoint does not fit {what}: {reason_of(error)}; resume with the same "
            "task and policies, or start a run of its own"
        ) from error


def gradients_of(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the gradients that a model's parameters hold, by parameter."""
    named = model.named_parameters()
    return {name: p.grad.detach().clone() for name, p in named if p.grad is not None}


def set_gradients(model: torch.nn.Module, gradients: Mapping[str, torch.Tensor]) -> None:
    """Give parameters the gradients that they held."""
    parameters = dict(model.named_parameters())
    for name, gradient in gradients.items():
        parameters[name].grad = gradient.to(parameters[name].device, copy=True)
