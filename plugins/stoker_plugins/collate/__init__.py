"""Collate stages: make batches of samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stoker.lazy import lazy
from stoker.plugins import StageEntry, hookimpl

if TYPE_CHECKING:
    from stoker_plugins.collate.bucket import Bucket
    from stoker_plugins.collate.concat import Concat
    from stoker_plugins.collate.lists import List
    from stoker_plugins.collate.pad import Pad
    from stoker_plugins.collate.stack import Stack

__all__ = ["Bucket", "Concat", "List", "Pad", "Stack"]
__getattr__ = lazy(
    __name__,
    {"Bucket": "bucket", "Concat": "concat", "List": "lists", "Pad": "pad", "Stack": "stack"},
)


@hookimpl
def stoker_stages() -> Iterator[StageEntry]:
    """Bring the built-in ways to make a batch."""
    yield StageEntry(
        "collate.stack", f"{__name__}.stack:Stack", "collate", "stacks equal shapes into tensors"
    )
    yield StageEntry(
        "collate.list", f"{__name__}.lists:List", "collate", "lists values, whatever their shapes"
    )
    yield StageEntry(
        "collate.pad", f"{__name__}.pad:Pad", "collate", "pads to the longest, with lengths"
    )
    yield StageEntry(
        "collate.concat", f"{__name__}.concat:Concat", "collate", "puts end to end, with offsets"
    )
    yield StageEntry(
        "collate.bucket",
        f"{__name__}.bucket:Bucket",
        "collate",
        "batches of one size under a budget of tokens, pixels or seconds",
    )
