"""The training session's state: whole, and equal after going on."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.optim import lr_scheduler

from stoker.errors import CheckpointError
from stoker.policy import PrecisionSession
from stoker.train.loop import TrainSession
from tests.core.run.training import assert_same
from tests.core.train.helpers import Pieces, Plain, Several, batch, context, mlp, task


def adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=0.05)


SCHEDULES = {
    "none": None,
    "lambda": lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda update: 0.9**update),
    "steps": lambda optimizer: lr_scheduler.MultiStepLR(optimizer, [2, 4]),
    "one cycle": lambda optimizer: lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=20),
    "sequence": lambda optimizer: lr_scheduler.SequentialLR(
        optimizer,
        [
            lr_scheduler.LinearLR(optimizer, total_iters=3),
            lr_scheduler.CosineAnnealingLR(optimizer, 9),
        ],
        [3],
    ),
}


def batches(count: int = 8) -> list[Any]:
    return [batch([1, 1, i % 2, 1, 0], seed=i) for i in range(count)]


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
@pytest.mark.parametrize("stop", [1, 3, 4, 5])
def test_B60_a_session_goes_on_at_any_batch_of_a_window(
    stop: int, schedule: Any, tmp_path: Any
) -> None:
    trained = task(optimizer=adam, schedule=schedule, max_grad_norm=0.5)
    memory = (Several(3), Pieces(2))
    whole = TrainSession(trained, context(*memory))
    losses = [whole(each).loss for each in batches()]
    first = TrainSession(trained, context(*memory))
    for each in batches()[:stop]:
        first(each)
    assert first.at_boundary == (stop % 3 == 0)
    torch.save(first.state_dict(), tmp_path / "state.pt")
    second = TrainSession(trained, context(*memory, seed=7))
    second.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert_same([second(each).loss for each in batches()[stop:]], losses[stop:])
    whole.end_epoch()
    second.end_epoch()
    assert_same(second.state_dict(), whole.state_dict())


class Scaled(PrecisionSession):
    scale = 1.0

    def state_dict(self) -> dict[str, Any]:
        return {"scale": self.scale}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.scale = state["scale"]


class ScaledPolicy(Plain):
    def open(self, model: Any, device: torch.device) -> PrecisionSession:
        return Scaled(device)


def test_the_scale_goes_on_too() -> None:
    first = TrainSession(task(), context(precision=ScaledPolicy()))
    assert isinstance(first.precision, Scaled)
    first.precision.scale = 8.0
    second = TrainSession(task(), context(precision=ScaledPolicy()))
    second.load_state_dict(first.state_dict())
    assert isinstance(second.precision, Scaled)
    assert second.precision.scale == 8.0


def test_S11_without_the_scaler_s_state_it_does_not_go_on() -> None:
    plain = TrainSession(task(), context())
    scaled = TrainSession(task(), context(precision=ScaledPolicy()))
    with pytest.raises(CheckpointError, match="the precision's state lacks scale"):
        scaled.load_state_dict(plain.state_dict())
    with pytest.raises(CheckpointError, match="holds scale, which nothing here takes over"):
        plain.load_state_dict(scaled.state_dict())


@pytest.mark.parametrize(
    "part", ["model", "optimizer", "schedule", "precision", "window", "gradients", "updates"]
)
def test_S11_a_missing_part_is_an_error(part: str) -> None:
    session = TrainSession(task(), context())
    state = session.state_dict()
    del state[part]
    with pytest.raises(CheckpointError, match=f"the training state lacks {part}"):
        session.load_state_dict(state)


def test_S11_a_missing_schedule_is_an_error() -> None:
    without = TrainSession(task(), context())
    scheduled = TrainSession(task(schedule=SCHEDULES["lambda"]), context())
    with pytest.raises(CheckpointError, match="lacks the state of a schedule, and the task has on"):
        scheduled.load_state_dict(without.state_dict())
    with pytest.raises(CheckpointError, match="has the state of a schedule, and the task has none"):
        without.load_state_dict(scheduled.state_dict())


def test_another_model_or_optimizer_is_told() -> None:
    state = TrainSession(task(), context()).state_dict()
    wider = TrainSession(task(model=lambda: torch.nn.Linear(4, 1).double()), context())
    with pytest.raises(
        CheckpointError, match=r"does not fit the model: [\s\S]*; resume with the same"
    ):
        wider.load_state_dict(state)

    def halves(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD([{"params": [p]} for p in parameters], lr=0.1)

    split = TrainSession(task(model=mlp, optimizer=halves), context())
    with pytest.raises(CheckpointError, match="does not fit the optimizer: ValueError"):
        split.load_state_dict(state)
