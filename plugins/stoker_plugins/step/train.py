"""The step that trains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from stoker.parameters import param
from stoker.session import Step, StepContext, StepSession
from stoker.stages import Surroundings
from stoker.train.compose import task_problems
from stoker.train.loop import TrainSession

if TYPE_CHECKING:
    from stoker.task import Task


@dataclass(frozen=True)
class Train(Step):
    """Trains a task's model: forward, backward, and one update a window of batches.

    Args:
        task: the model with its loss and optimizer; its factories run after seeding.
    """

    name: ClassVar[str] = "step.train"
    trains: ClassVar[bool] = True
    example: ClassVar[str] = "step.Train(Task(model=make_model, loss=cross_entropy, optimizer=sgd))"

    task: Task = param(help="the model with its loss and optimizer")

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield what is wrong with the task."""
        return task_problems(self.task, trains=True)

    @contextmanager
    def open(self, context: StepContext) -> Iterator[StepSession]:
        """Compose the task with the context's policies; yield the session."""
        yield TrainSession(self.task, context)
