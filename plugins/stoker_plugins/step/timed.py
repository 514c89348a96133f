"""A step that takes a set time: stands for a device that is not there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter, sleep
from typing import Any, ClassVar

from stoker.parameters import param
from stoker.sample import Batch
from stoker.session import Step, StepContext, StepOutcome, StepSession
from stoker.train.split import batch_length


@dataclass(frozen=True)
class Timed(Step):
    """Takes a set time for each batch, asleep: would this loader feed such a device?

    Args:
        step_ms: time for a batch, in ms.
        per_sample_ms: time added for each sample of the batch, in ms.
    """

    name: ClassVar[str] = "step.timed"
    example: ClassVar[str] = "step.Timed(80)"

    step_ms: float = param(help="time for a batch", unit="ms", minimum=0)
    per_sample_ms: float = param(0.0, "time added for each sample", unit="ms", minimum=0)

    @contextmanager
    def open(self, context: StepContext) -> Iterator[StepSession]:
        """Yield a session that only takes time."""
        yield TimedSession(self.step_ms, self.per_sample_ms)


class TimedSession(StepSession):
    """A timed step at work. Times in ms."""

    def __init__(self, step_ms: float, per_sample_ms: float) -> None:
        self._step_ms = step_ms
        self._per_sample_ms = per_sample_ms

    def __call__(self, batch: Batch) -> StepOutcome:
        """Sleep until the batch's time is over."""
        begin = perf_counter()
        samples = batch_length(batch)
        deadline = begin + (self._step_ms + samples * self._per_sample_ms) / 1e3
        while (left := deadline - perf_counter()) > 0:
            sleep(left)
        return StepOutcome(samples)

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: going on needs no more than the loader's place."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take nothing over."""
