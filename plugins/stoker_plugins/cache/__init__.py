"""Cache stages: keep what the stages before them made, so that later epochs need not make it.

A cache stands behind stages that draw nothing, best behind the dearest of them: decode.image
and augment.resize, say. Arrays of whole photographs are ten times as large as their files, so
make them small before they are kept. What draws (random crops, flips) stands behind it.

    read.Files("photos"), decode.Image(), augment.Resize(256), cache.Memory(),
    augment.RandomResizedCrop(224), augment.Flip(), collate.Stack(64)

Not kept are samples that do not fit (they are made in each epoch), samples that failed or were
filtered, and objects that are no plain values: what can be kept are numbers, text, bytes, arrays,
tensors, and lists, tuples and dicts of these. A stream cannot be cached, since it is read from
its beginning whatever is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stoker.lazy import lazy
from stoker.plugins import StageEntry, hookimpl

if TYPE_CHECKING:
    from stoker_plugins.cache.disk import Disk
    from stoker_plugins.cache.memory import Memory

__all__ = ["Disk", "Memory"]
__getattr__ = lazy(__name__, {"Disk": "disk", "Memory": "memory"})


@hookimpl
def stoker_stages() -> Iterator[StageEntry]:
    """Bring the built-in caches."""
    yield StageEntry(
        "cache.memory", f"{__name__}.memory:Memory", "cache", "keeps samples in memory"
    )
    yield StageEntry(
        "cache.disk", f"{__name__}.disk:Disk", "cache", "keeps samples on disk, also for later runs"
    )
