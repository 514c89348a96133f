"""The step that measures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from stoker.parameters import param
from stoker.session import Step, StepContext, StepSession
from stoker.stages import Surroundings
from stoker.train.compose import task_problems
from stoker.train.evaluate import evaluation

if TYPE_CHECKING:
    from stoker.task import Task


@dataclass(frozen=True)
class Evaluate(Step):
    """Measures a task's loss and metrics over the whole set: the run's model, or a new one.

    Args:
        task: the loss and metrics; its model is made where no run brings one.
    """

    name: ClassVar[str] = "step.evaluate"
    example: ClassVar[str] = "step.Evaluate(Task(model=make_model, loss=cross_entropy))"

    task: Task = param(help="the loss and metrics; its model where no run brings one")

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield what is wrong with the task."""
        return task_problems(self.task, trains=False)

    @contextmanager
    def open(self, context: StepContext) -> Iterator[StepSession]:
        """Hold the model in evaluation mode; yield the session."""
        with evaluation(self.task, context) as session:
            yield session
