"""The step's side of the contract: what consumes batches, and what it is given.

A `Step` is the last stage. It runs in the consumer's thread, one batch after
another; the state it needs (a model, an optimizer) lives in the session that
`open` yields, never in the stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from stoker.sample import Batch
from stoker.stages import Resource, Stage, undefined

if TYPE_CHECKING:
    import torch

    from stoker.policy import Memory, Precision


@dataclass(frozen=True)
class StepContext:
    """What a step is opened with."""

    device: torch.device
    seed: int
    precision: Precision
    memory: Sequence[Memory] = ()
    model: Any = None
    """The model of the run that this one evaluates, or None when it stands alone."""


@dataclass
class StepOutcome:
    """What one call of a step tells. Tensors stay on the device: reading them would wait."""

    samples: int
    loss: Any = None
    """Mean loss of the batch, a scalar tensor or float, or None where there is none."""
    updated: bool = False
    """The optimizer moved: False while micro-batches gather, or when a step was skipped."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """More of the step's record: gradient norm, loss scale, compute dtype."""


class StepSession:
    """A step at work. Called with each batch."""

    model: Any = None
    """What is trained, for an evaluation to use; None where there is no model."""

    @property
    def at_boundary(self) -> bool:
        """No update is under way: the cheapest moment to save. Saving at any other is allowed."""
        return True

    def __call__(self, batch: Batch) -> StepOutcome:
        """Consume one batch."""
        raise undefined(self, "__call__")

    def end_epoch(self) -> StepOutcome | None:
        """Close what the epoch's end leaves open, such as a half-filled accumulation window."""
        return None

    def results(self) -> Mapping[str, float]:
        """Return what was measured over all batches so far (metrics of an evaluation)."""
        return {}

    def state_dict(self) -> dict[str, Any] | None:
        """Return all that going on from here needs, or None where the step has no state.

        Tensors, numbers, text, and dicts, lists and tuples of them. Without a state a run
        writes no checkpoints and cannot be resumed.
        """
        return None

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state that `state_dict` gave, in a session opened the same way.

        Raises `CheckpointError` where a part is missing or does not fit.
        """
        raise undefined(self, "load_state_dict")


@dataclass(frozen=True)
class Step(Stage):
    """The last stage: trains, evaluates, or stands for either."""

    kind: ClassVar[str] = "step"
    resource: ClassVar[Resource] = "device"
    trains: ClassVar[bool] = False
    """It updates a model, so precision and memory policies apply to it."""

    @contextmanager
    def open(self, context: StepContext) -> Iterator[StepSession]:
        """Hold the step's state; yield the session that is called with each batch."""
        yield self.session(context)

    def session(self, context: StepContext) -> StepSession:
        """Return the session; a shorter way than `open` where nothing has to be closed."""
        raise undefined(self, "open")
