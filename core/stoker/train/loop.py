"""The training step, composed once and then read from top to bottom."""

from __future__ import annotations

from typing import Any

import torch

from stoker.errors import CheckpointError, UsageError
from stoker.sample import Batch
from stoker.session import StepContext, StepOutcome, StepSession
from stoker.task import Task
from stoker.train import compose
from stoker.train.split import batch_length, split
from stoker.train.states import fitting, gradients_of, same_names, set_gradients
from stoker.train.sums import RunningSum, loss_and_count
from stoker.train.window import Window


class TrainSession(StepSession):
    """A task at training: called with each batch, it updates the model once a window.

    Args:
        task: what is trained.
        context: device, seed, and the policies that apply.

    Raises:
        UsageError: parts that do not go together.
        PrecisionError: the precision would not take effect on this device.
    """

    def __init__(self, task: Task, context: StepContext) -> None:
        compose.refuse(
            compose.task_problems(task, trains=True)
            + compose.composition_problems(task, context.memory)
        )
        model = compose.seeded_model(task, context.seed)
        self.model = compose.wrapped(model, context.memory).to(context.device)
        self.task = task
        self.optimizer = _make_optimizer(task, self.model)
        self.schedule = _make_schedule(task, self.optimizer)
        self.precision = context.precision.open(self.model, context.device)
        self.updates = 0
        self.skipped = 0
        self._micro_batch_size = compose.micro_batch_size(context.memory)
        self._window = Window(compose.batches_per_update(context.memory))

    def __call__(self, batch: Batch) -> StepOutcome:
        """Run forward and backward on a batch; update at the window's end."""
        samples = batch_length(batch)
        pieces = list(split(batch, self._micro_batch_size))
        self._window.enter(samples, len(pieces))
        seen = RunningSum()
        for piece in pieces:
            with self.precision.autocast():
                loss, count = loss_and_count(self.task.loss, self.model, piece)
            self.precision.backward(self._window.share(loss, count))
            seen.add(loss.detach(), count)
        updated, facts = self._update() if self._window.full else (False, self.precision.facts())
        return StepOutcome(samples, seen.mean(), updated, facts)

    def end_epoch(self) -> StepOutcome | None:
        """Update with what a half-filled window gathered, divided by what it really has."""
        if not self._window.batches:
            return None
        updated, facts = self._update()
        return StepOutcome(0, None, updated, facts)

    @property
    def at_boundary(self) -> bool:
        """No window is under way."""
        return not self._window.batches

    def state_dict(self) -> dict[str, Any]:
        """Return model, optimizer, schedule, precision, and what the present window gathered."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": None if self.schedule is None else self.schedule.state_dict(),
            "precision": self.precision.state_dict(),
            "window": self._window.state_dict(),
            "gradients": {} if self.at_boundary else gradients_of(self.model),
            "updates": self.updates,
            "skipped": self.skipped,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state.

        Raises:
            CheckpointError: a part is missing, or is not of this model, optimizer or policy.
        """
        same_names("the training state", state, self.state_dict())
        same_names("the precision's state", state["precision"], self.precision.state_dict())
        if (state["schedule"] is None) != (self.schedule is None):
            raise CheckpointError(
                "the checkpoint "
                + ("lacks" if state["schedule"] is None else "has")
                + " the state of a schedule, and the task "
                + ("has one" if self.schedule is not None else "has none")
            )
        with fitting("the model"):
            self.model.load_state_dict(state["model"])
        with fitting("the optimizer"):
            self.optimizer.load_state_dict(state["optimizer"])
        if self.schedule is not None:
            with fitting("the schedule"):
                self.schedule.load_state_dict(state["schedule"])
        with fitting("the precision"):
            self.precision.load_state_dict(state["precision"])
        with fitting("the accumulation window"):
            self._window.load_state_dict(state["window"])
            set_gradients(self.model, state["gradients"])
        self.updates, self.skipped = state["updates"], state["skipped"]

    def _update(self) -> tuple[bool, dict[str, Any]]:
        """Close the window: return whether the optimizer moved, and the step's record.

        The order is the point: each line needs what stands above it.
        """
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        self._window.normalise(parameters)
        self.precision.unscale(self.optimizer)
        facts = self._clip(parameters)
        updated = self.precision.step(self.optimizer)
        self.optimizer.zero_grad(set_to_none=True)
        self._window.clear()
        if updated and self.schedule is not None:
            self.schedule.step()
        self.updates += updated
        self.skipped += not updated
        return updated, {**self.precision.facts(), **facts, "skipped": not updated}

    def _clip(self, parameters: list[torch.Tensor]) -> dict[str, Any]:
        if self.task.max_grad_norm is None:
            return {}
        norm = torch.nn.utils.clip_grad_norm_(parameters, self.task.max_grad_norm)
        return {"grad_norm": norm.detach()}


def _make_optimizer(task: Task, model: torch.nn.Module) -> torch.optim.Optimizer:
    trainable = {p: name for name, p in model.named_parameters() if p.requires_grad}
    if not trainable:
        raise UsageError("the model has no parameter that requires gradients: nothing to train")
    assert task.optimizer is not None  # task_problems refused it
    optimizer = task.optimizer(list(trainable))
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise UsageError(
            f"Task.optimizer returned a {type(optimizer).__name__}; it must return a "
            "torch.optim.Optimizer"
        )
    taken = {p for group in optimizer.param_groups for p in group["params"]}
    left = [name for p, name in trainable.items() if p not in taken]
    if left:
        raise UsageError(
            f"the optimizer leaves out {len(left)} of {len(trainable)} parameters that require "
            f"gradients ({', '.join(left[:3])}{', ...' if len(left) > 3 else ''}); give it all "
            "it is handed, or freeze those with requires_grad_(False) in Task.model"
        )
    return optimizer


def _make_schedule(task: Task, optimizer: torch.optim.Optimizer) -> Any:
    schedule = task.schedule(optimizer) if task.schedule else None
    if isinstance(schedule, torch.optim.lr_scheduler.ReduceLROnPlateau):
        raise UsageError(
            "Task.schedule returned ReduceLROnPlateau, which moves by a metric; a schedule here "
            "moves once an update: use one of the others in torch.optim.lr_scheduler"
        )
    return schedule
