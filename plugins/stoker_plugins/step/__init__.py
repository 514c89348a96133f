"""Steps: what consumes the batches, by training, evaluating, or taking a set time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stoker.lazy import lazy
from stoker.plugins import StageEntry, hookimpl

if TYPE_CHECKING:
    from stoker_plugins.step.evaluate import Evaluate
    from stoker_plugins.step.timed import Timed
    from stoker_plugins.step.train import Train

__all__ = ["Evaluate", "Timed", "Train"]
__getattr__ = lazy(__name__, {"Evaluate": "evaluate", "Timed": "timed", "Train": "train"})


@hookimpl
def stoker_stages() -> Iterator[StageEntry]:
    """Bring the built-in steps."""
    yield StageEntry("step.train", f"{__name__}.train:Train", "step", "trains a task's model")
    yield StageEntry(
        "step.evaluate", f"{__name__}.evaluate:Evaluate", "step", "measures loss and metrics"
    )
    yield StageEntry(
        "step.timed", f"{__name__}.timed:Timed", "step", "takes a set time for each batch"
    )
