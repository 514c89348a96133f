"""Stoker keeps a GPU fed, and proves it.

The names most people need; each is imported when it is first used, so that
`import stoker` costs nothing and imports no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stoker.errors import StokerError
    from stoker.loader import Loader
    from stoker.parameters import param
    from stoker.pipeline import Pipeline, Quarantine, stage
    from stoker.plugins import StageEntry, hookimpl
    from stoker.rng import Rng
    from stoker.stages import BatchMap, Expand, Gather, Map, Mix, Source, StreamSource
    from stoker.task import Task
    from stoker.watching import watch

__version__ = "0.1.0"

_HOMES = {
    "BatchMap": "stages",
    "Expand": "stages",
    "Gather": "stages",
    "Loader": "loader",
    "Map": "stages",
    "Mix": "stages",
    "Pipeline": "pipeline",
    "Quarantine": "pipeline",
    "Rng": "rng",
    "Source": "stages",
    "StageEntry": "plugins",
    "StokerError": "errors",
    "StreamSource": "stages",
    "Task": "task",
    "hookimpl": "plugins",
    "param": "parameters",
    "stage": "pipeline",
    "watch": "watching",
}
__all__ = [
    "BatchMap",
    "Expand",
    "Gather",
    "Loader",
    "Map",
    "Mix",
    "Pipeline",
    "Quarantine",
    "Rng",
    "Source",
    "StageEntry",
    "StokerError",
    "StreamSource",
    "Task",
    "hookimpl",
    "param",
    "stage",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'stoker' has no attribute {name!r}")
    return getattr(importlib.import_module(f"stoker.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
