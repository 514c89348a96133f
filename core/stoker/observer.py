"""Run observers: told what happens in a run, at windows and ends, never per step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Observer:
    """Base class; override what is of interest. Errors are reported and never end a run.

    All dicts are JSON-able; their keys are those of `metrics.jsonl` and `result.json`.
    """

    name = ""

    def on_start(self, plan: Mapping[str, Any], folder: str) -> None:
        """Hear that a run starts: its plan, and the folder that it writes to."""

    def on_window(self, window: Mapping[str, Any]) -> None:
        """See one measured window (about a second)."""

    def on_evaluation(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """See the metrics of an evaluation."""

    def on_end(self, result: Mapping[str, Any]) -> None:
        """See the whole result, also of a run that failed."""
