"""Evaluation: the task's loss and metrics over a whole set, each sample counted once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from stoker.errors import UsageError
from stoker.sample import PADDING, Batch
from stoker.session import StepContext, StepOutcome, StepSession
from stoker.task import Task
from stoker.train import compose
from stoker.train.split import batch_length
from stoker.train.sums import RunningSum, sum_and_count


class EvaluateSession(StepSession):
    """A task at evaluation. Open it with `evaluation`, which puts the model in its mode.

    Args:
        task: what is measured.
        context: device, seed and precision; its model, where a run's model is measured.
    """

    def __init__(self, task: Task, context: StepContext) -> None:
        compose.refuse(compose.task_problems(task, trains=False))
        if context.model is None:
            self.model = compose.seeded_model(task, context.seed).to(context.device)
        else:
            torch.manual_seed(context.seed)
            self.model = context.model
        self.task = task
        self.precision = context.precision.open(self.model, context.device)
        # Long sets lose digits in single precision; mps has nothing wider.
        wide = torch.float32 if context.device.type == "mps" else torch.float64
        self._place: dict[str, Any] = {"dtype": wide, "device": context.device}
        self._sums: dict[str, RunningSum] = {}

    # Not inference mode: a model may cache tensors here (rotary tables) that training uses later.
    @torch.no_grad()
    def __call__(self, batch: Batch) -> StepOutcome:
        """Add a batch to the sums; one that is another rank's too is left out."""
        if isinstance(batch, dict) and PADDING in batch:
            return StepOutcome(0)
        with self.precision.autocast():
            loss = sum_and_count(self.task.loss(self.model, batch), "Task.loss")
            metrics = self.task.metrics(self.model, batch) if self.task.metrics else {}
        if "loss" in metrics:
            raise UsageError("Task.metrics returned 'loss', which names the task's own; rename it")
        self._add("loss", *loss)
        for name, pair in metrics.items():
            self._add(name, *sum_and_count(pair, f"Task.metrics[{name!r}]"))
        mean = RunningSum()
        mean.add(*loss)
        return StepOutcome(batch_length(batch), mean.mean(), facts=self.precision.facts())

    def results(self) -> Mapping[str, float]:
        """Return sum / count by name, "loss" first; nan where nothing was counted.

        This reads the sums from the device: the one wait of an evaluation.
        """
        if not self._sums:
            return {}
        parts = [part for each in self._sums.values() for part in (each.total, each.count)]
        numbers = torch.stack([torch.as_tensor(part, **self._place) for part in parts]).tolist()
        pairs = zip(self._sums, numbers[::2], numbers[1::2], strict=True)
        return {name: total / count if count else math.nan for name, total, count in pairs}

    def state_dict(self) -> dict[str, Any]:
        """Return the sums so far: weights are the model's own business."""
        return {"sums": {name: (each.total, each.count) for name, each in self._sums.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on adding to the sums of a state."""
        self._sums.clear()
        for name, (total, count) in state["sums"].items():
            self._add(name, total, count)

    def _add(self, name: str, total: Any, count: Any) -> None:
        # Numbers stay numbers here: bringing one to the device waits for it.
        wide = (v.to(**self._place) if isinstance(v, torch.Tensor) else v for v in (total, count))
        self._sums.setdefault(name, RunningSum()).add(*wide)


@contextmanager
def evaluation(task: Task, context: StepContext) -> Iterator[EvaluateSession]:
    """Open an evaluation: the model in evaluation mode, and afterwards all as it was.

    Every module gets its own mode back (a frozen layer stays frozen), and the random
    generators go on where they stood, so that training does not depend on evaluations.
    """
    with _generators_kept(context.device):
        session = EvaluateSession(task, context)
        with evaluation_mode(session.model):
            yield session


@contextmanager
def evaluation_mode(model: torch.nn.Module) -> Iterator[None]:
    """Hold a model in evaluation mode, then give every module back the mode it had."""
    before = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        # train() first, since some modules do more in it than set the flag.
        model.train(before[0][1])
        for module, training in before:
            if module.training != training:
                module.training = training


def _generators_kept(device: torch.device) -> Any:
    devices = [] if device.type == "cpu" else [device]
    return torch.random.fork_rng(devices, device_type=device.type)
