"""Composing a step: what does not go together, and the seeded model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from stoker.errors import UsageError, describe_given
from stoker.parameters import shown
from stoker.policy import Memory
from stoker.task import Task


def task_problems(task: Any, *, trains: bool) -> list[str]:
    """Return what is wrong with a step's task, before anything starts."""
    if not isinstance(task, Task):
        return [f"task={describe_given(task)}: allowed is a stoker.Task(model=..., loss=...)"]
    wrong = [
        f"Task.{name}={describe_given(getattr(task, name))}: allowed is a function"
        for name in ("model", "loss", "optimizer", "schedule", "metrics")
        if not callable(getattr(task, name))
        and (name in ("model", "loss") or getattr(task, name) is not None)
    ]
    if trains and task.optimizer is None:
        wrong.append(
            "training needs Task(optimizer=...): a function that makes the optimizer from the "
            "parameters, such as lambda parameters: torch.optim.SGD(parameters, lr=0.1)"
        )
    clip = task.max_grad_norm
    if clip is not None and not clip > 0:
        wrong.append(f"Task.max_grad_norm={clip}: allowed is more than 0, or None for no clipping")
    return wrong


def composition_problems(task: Any, memory: Sequence[Any]) -> list[str]:
    """Return which memory policies do not go with the task or with one another.

    What is no task or no policy is left to whoever checks that.
    """
    policies = [policy for policy in memory if isinstance(policy, Memory)]
    splitting = [policy for policy in policies if policy.micro_batch_size is not None]
    gathering = [policy for policy in policies if policy.batches_per_update != 1]
    problems = []
    for rivals, what in ((splitting, "the micro-batch size"), (gathering, "the accumulation")):
        if len(rivals) > 1:
            names = " and ".join(shown(policy) for policy in rivals)
            problems.append(f"{names} all set {what}; leave one of them")
    if isinstance(task, Task) and not task.separable:
        problems += [
            f"{shown(policy)} adds up the loss over parts of what an update sees, and this "
            "task's loss does not add up (separable=False); leave the policy out"
            for policy in dict.fromkeys([*splitting, *gathering])
        ]
    return problems


def micro_batch_size(memory: Sequence[Memory]) -> int | None:
    """Return the samples in each piece of a batch, or None where batches stay whole."""
    sizes = (policy.micro_batch_size for policy in memory)
    return next((size for size in sizes if size is not None), None)


def batches_per_update(memory: Sequence[Memory]) -> int:
    """Return how many batches one update gathers."""
    return max((policy.batches_per_update for policy in memory), default=1)


def seeded_model(task: Task, seed: int) -> torch.nn.Module:
    """Return the task's model, whose weights depend on the seed and on nothing before it.

    A model that comes in evaluation mode as a whole, as many pretrained ones do, is put in
    training mode; one that froze parts of itself is left as it is.

    Raises:
        UsageError: the factory made no module.
    """
    torch.manual_seed(seed)
    model = task.model()
    if not isinstance(model, torch.nn.Module):
        raise UsageError(
            f"Task.model returned {describe_given(model)}; it must return a torch.nn.Module"
        )
    return model if model.training else model.train()


def wrapped(model: torch.nn.Module, memory: Sequence[Memory]) -> torch.nn.Module:
    """Return the model with all memory policies in it, wrapped in the order given.

    Raises:
        UsageError: a policy returned no module.
    """
    for policy in memory:
        result: Any = policy.wrap(model)
        if not isinstance(result, torch.nn.Module):
            raise UsageError(
                f"{shown(policy)}: wrap() returned {describe_given(result)}; it must return the "
                "model, a torch.nn.Module"
            )
        model = result
    return model


def refuse(problems: Sequence[str]) -> None:
    """Raise all problems at once, if there are any.

    Raises:
        UsageError: there are.
    """
    if problems:
        raise UsageError("the step cannot be composed: " + "; ".join(problems))
