"""Transfer stages: pin batches and copy them to the device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stoker.lazy import lazy
from stoker.plugins import StageEntry, hookimpl

if TYPE_CHECKING:
    from stoker_plugins.transfer.pin import Pin
    from stoker_plugins.transfer.to_device import ToDevice

__all__ = ["Pin", "ToDevice"]
__getattr__ = lazy(__name__, {"Pin": "pin", "ToDevice": "to_device"})


@hookimpl
def stoker_stages() -> Iterator[StageEntry]:
    """Bring the built-in ways to the device."""
    yield StageEntry(
        "transfer.pin", f"{__name__}.pin:Pin", "pin", "moves batches into page-locked memory"
    )
    yield StageEntry(
        "transfer.to_device",
        f"{__name__}.to_device:ToDevice",
        "copy",
        "copies batches to the device",
    )
