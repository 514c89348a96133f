"""What goes together, and the seeded model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from stoker.errors import UsageError
from stoker.policy import Memory
from stoker.train import composition_problems
from stoker.train.compose import (
    batches_per_update,
    micro_batch_size,
    refuse,
    seeded_model,
    task_problems,
    wrapped,
)
from tests.core.train.helpers import Pieces, Several, mlp, task, weights


def test_a_good_task_has_no_problems() -> None:
    assert task_problems(task(), trains=True) == []
    assert task_problems(task(optimizer=None), trains=False) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (3, "task=3: allowed is a stoker.Task"),
        (task(optimizer=None), r"needs Task\(optimizer=...\)"),
        (task(loss=None), "Task.loss=None: allowed is a function"),
        (task(schedule=0.1), "Task.schedule=0.1: allowed is a function"),
        (task(max_grad_norm=0.0), "Task.max_grad_norm=0.0: allowed is more than 0"),
        (task(max_grad_norm=float("nan")), "Task.max_grad_norm=nan"),
    ],
)
def test_a_faulty_task_is_described(given: Any, said: str) -> None:
    problems = task_problems(given, trains=True)
    assert len(problems) == 1
    with pytest.raises(UsageError, match=said):
        refuse(problems)


def test_policies_of_which_one_is_allowed_are_named_together() -> None:
    problems = composition_problems(task(), [Pieces(4), Several(2), Pieces(8), Several(3)])
    assert problems == [
        "test.pieces(size=4) and test.pieces(size=8) all set the micro-batch size; leave one of "
        "them",
        "test.several(batches=2) and test.several(batches=3) all set the accumulation; leave one "
        "of them",
    ]


def test_a_loss_that_does_not_add_up_is_not_split() -> None:
    problems = composition_problems(task(separable=False), [Pieces(4), Several(2)])
    assert [problem.split()[0] for problem in problems] == [
        "test.pieces(size=4)",
        "test.several(batches=2)",
    ]
    assert composition_problems(task(separable=False), [Memory(), Several(1)]) == []


def test_what_is_no_task_or_policy_is_left_to_others() -> None:
    assert composition_problems(3, ["memory.micro_batch", Pieces(4)]) == []


def test_sizes_come_from_the_policy_that_sets_them() -> None:
    memory = [Memory(), Pieces(4), Several(3)]
    assert (micro_batch_size(memory), batches_per_update(memory)) == (4, 3)
    assert (micro_batch_size([]), batches_per_update([])) == (None, 1)


def test_weights_depend_on_the_seed_alone() -> None:
    first = weights(seeded_model(task(), 5))
    torch.manual_seed(99)
    torch.randn(10)
    assert torch.equal(weights(seeded_model(task(), 5)), first)
    assert not torch.equal(weights(seeded_model(task(), 6)), first)


def test_a_model_in_evaluation_mode_is_set_to_train_and_a_frozen_part_is_left() -> None:
    assert seeded_model(task(model=lambda: mlp().eval()), 0).training

    def partly_frozen() -> nn.Module:
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        model[1].eval()
        return model

    model = seeded_model(task(model=partly_frozen), 0)
    assert [module.training for module in model.modules()] == [True, True, False]


def test_a_factory_that_makes_no_module_is_refused() -> None:
    with pytest.raises(UsageError, match=r"Task\.model returned 3"):
        seeded_model(task(model=lambda: 3), 0)


@dataclass(frozen=True)
class Around(Memory):
    """Puts the model in a box."""

    def wrap(self, model: nn.Module) -> nn.Module:
        return nn.Sequential(model)


@dataclass(frozen=True)
class Forgetful(Memory):
    """Forgets to return the model."""

    def wrap(self, model: nn.Module) -> nn.Module:
        return None


def test_policies_wrap_one_another_and_must_return_the_model() -> None:
    inner = nn.Linear(1, 1)
    assert next(iter(wrapped(inner, [Memory(), Around()]).children())) is inner
    with pytest.raises(UsageError, match=r"Forgetful\(\): wrap\(\) returned None"):
        wrapped(inner, [Forgetful()])
