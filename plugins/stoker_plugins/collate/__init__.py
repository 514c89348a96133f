"""Collate stages: make batches of samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stoker.lazy import lazy
from stoker.plugins import StageEntry, hookimpl

if TYPE_CHECKING:
    from stoker_plugins.collate.lists import List
    from stoker_plugins.collate.stack import Stack

__all__ = ["List", "Stack"]
__getattr__ = lazy(__name__, {"List": "lists", "Stack": "stack"})


@hookimpl
def stoker_stages() -> Iterator[StageEntry]:
    """Bring the built-in ways to make a batch."""
    yield StageEntry(
        "collate.stack", f"{__name__}.stack:Stack", "collate", "stacks equal shapes into tensors"
    )
    yield StageEntry(
        "collate.list", f"{__name__}.lists:List", "collate", "lists values, whatever their shapes"
    )
