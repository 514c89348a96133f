"""Watching loaders that were never written for Stoker, in their owner's own loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.lazy import lazy

if TYPE_CHECKING:
    from stoker.watching.drive import analyze_loader
    from stoker.watching.report import WatchReport
    from stoker.watching.wrapper import watch

__all__ = ["WatchReport", "analyze_loader", "watch"]

__getattr__ = lazy(
    __name__, {"WatchReport": "report", "analyze_loader": "drive", "watch": "wrapper"}
)
