"""Takes a window of measurements at a steady pace and hands it to the observers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from stoker.errors import RunError, reason_of
from stoker.loader import Loader
from stoker.measure.snapshot import Snapshot
from stoker.observer import Observer

# Verdicts need windows of a second: a run-queue wait is counted only when it ends.
WINDOW_S = 1.0


class Observers:
    """Tells all observers. One that raises is noted and no longer told."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = list(observers)
        self.faults: list[str] = []

    def tell(self, event: str, *facts: Any) -> None:
        """Call a method of every observer."""
        for observer in list(self._observers):
            try:
                getattr(observer, event)(*facts)
            except (Exception, SystemExit) as error:
                name = getattr(observer, "name", "") or type(observer).__name__
                self.faults.append(f"observer {name}: {event}: {reason_of(error)}")
                self._observers = [other for other in self._observers if other is not observer]


class Recorder:
    """Measures a loader in windows, in a thread of its own, while it is entered.

    Args:
        loader: what to measure.
        progress: facts of the run to put into each window (steps, samples, loss).
        tell: takes each window.
        window_s: how long a window is.
    """

    def __init__(
        self,
        loader: Loader,
        progress: Callable[[], dict[str, Any]],
        tell: Callable[[dict[str, Any]], None],
        window_s: float = WINDOW_S,
    ) -> None:
        self._loader, self._progress, self._tell = loader, progress, tell
        self._window_s = window_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="stoker-recorder", daemon=True)
        self._last: Snapshot | None = None
        self._error: Exception | None = None

    def __enter__(self) -> Recorder:
        self._last = self._loader.snapshot()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._try_window()  # the rest, so that windows add up to the run
        # What ended the run comes first; a full disk is told only when nothing else is.
        if self._error is not None and error is None:
            raise RunError(f"measuring stopped: {reason_of(self._error)}") from self._error

    def _work(self) -> None:
        while self._error is None and not self._stop.wait(self._window_s):
            self._try_window()

    def _try_window(self) -> None:
        if self._error is None:
            try:
                self._window()
            except Exception as error:
                self._error = error

    def _window(self) -> None:
        now = self._loader.snapshot()
        assert self._last is not None
        report = self._loader.report_between(self._last, now)
        self._last = now
        self._tell({"event": "window", "time": time.time(), **self._progress(), **report.to_dict()})
