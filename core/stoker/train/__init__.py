"""The training step: micro-batches, accumulation, one update a window; and evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.lazy import lazy

if TYPE_CHECKING:
    from stoker.train.compose import composition_problems
    from stoker.train.evaluate import EvaluateSession, evaluation
    from stoker.train.loop import TrainSession

__all__ = ["EvaluateSession", "TrainSession", "composition_problems", "evaluation"]
__getattr__ = lazy(
    __name__,
    {
        "EvaluateSession": "evaluate",
        "TrainSession": "loop",
        "composition_problems": "compose",
        "evaluation": "evaluate",
    },
)
