"""What losses and metrics return."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from stoker.errors import UsageError
from stoker.train.sums import RunningSum, at_least_one, loss_and_count, sum_and_count


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (torch.tensor(1.0), r"a tensor of shape \(\)"),
        ((torch.zeros(3), 3), r"\(a tensor of shape \(3,\), 3\)"),
        ((1.0, 2, 3), r"\(1.0, 2, 3\)"),
        (None, "None"),
    ],
)
def test_what_is_no_sum_and_count_is_refused(result: Any, said: str) -> None:
    with pytest.raises(UsageError, match=f"Task.loss returned {said}; it must return two scalars"):
        sum_and_count(result, "Task.loss")


@pytest.mark.parametrize("total", [2.0, torch.tensor(2.0)])
def test_a_loss_that_gradients_cannot_flow_from_is_refused(total: Any) -> None:
    with pytest.raises(UsageError, match="without gradients"):
        loss_and_count(lambda model, batch: (total, 1), None, None)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (torch.bfloat16, torch.float32),
        (torch.float16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_half_precision_losses_are_added_up_in_single(
    given: torch.dtype, kept: torch.dtype
) -> None:
    total = torch.ones((), dtype=given, requires_grad=True)
    assert loss_and_count(lambda model, batch: (total, 1), None, None)[0].dtype == kept


def test_a_mean_over_nothing_is_defined() -> None:
    assert RunningSum().mean() == 0
    masked = RunningSum()
    masked.add(torch.tensor(0.0), torch.tensor(0))
    assert masked.mean() == 0
    assert at_least_one(torch.tensor(3)) == 3


def test_a_running_sum_takes_tensors_and_numbers() -> None:
    running = RunningSum()
    running.add(torch.tensor(3.0), 1)
    running.add(1.0, torch.tensor(3))
    assert float(running.mean()) == 1.0
