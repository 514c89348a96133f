"""Memory policies: how the step trades time for memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stoker.lazy import lazy
from stoker.plugins import PolicyEntry, hookimpl

if TYPE_CHECKING:
    from stoker_plugins.memory.accumulate import Accumulate
    from stoker_plugins.memory.micro_batch import MicroBatch

__all__ = ["Accumulate", "MicroBatch"]
__getattr__ = lazy(__name__, {"Accumulate": "accumulate", "MicroBatch": "micro_batch"})


@hookimpl
def stoker_memory() -> Iterator[PolicyEntry]:
    """Bring the built-in memory policies."""
    yield PolicyEntry(
        "memory.accumulate", f"{__name__}.accumulate:Accumulate", "one update for several batches"
    )
    yield PolicyEntry(
        "memory.micro_batch", f"{__name__}.micro_batch:MicroBatch", "batches in smaller pieces"
    )
