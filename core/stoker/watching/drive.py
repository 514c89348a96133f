"""Analysing a loader by iterating it, with a sleep in the place of the step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from stoker.errors import UsageError, describe_given
from stoker.watching.wrapper import watch

if TYPE_CHECKING:
    from stoker.watching.report import WatchReport

# Nobody else waits for this loop, so it may look more closely.
_COST: Final = 0.03


def analyze_loader(
    make_loader: Callable[[], Iterable[Any]] | Iterable[Any],
    seconds: float = 10.0,
    step_ms: float = 0.0,
) -> WatchReport:
    """Iterate a loader, epoch after epoch, and return what it wastes.

    Args:
        make_loader: a function that returns the loader, or the loader itself.
        seconds: how long to iterate it, once the first batch is there.
        step_ms: how long the step sleeps for each batch, as a device would take.

    Raises:
        UsageError: there is nothing to iterate, or it gave no batch.
    """
    loader: Any = make_loader
    if callable(make_loader) and not hasattr(type(make_loader), "__iter__"):
        loader = make_loader()
    watched = watch(loader, cost=_COST)
    until: float | None = None
    more = True
    while more and (until is None or time.monotonic() < until):
        more = False  # an iterator gives nothing a second time
        for _ in watched:
            more = True
            if until is None:
                until = time.monotonic() + seconds
            if step_ms:
                time.sleep(step_ms / 1e3)
            if time.monotonic() >= until:
                break
    if until is None:
        raise UsageError(
            f"the loader {describe_given(loader)} gave no batch: "
            "give a function that returns one with data in it"
        )
    report: WatchReport = watched.report()
    return report
