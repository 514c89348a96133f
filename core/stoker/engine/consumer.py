"""The consumer: whoever takes batches from the loader, measured as the last stage."""

from __future__ import annotations

import threading
from time import perf_counter_ns, thread_time_ns

from stoker.measure.meter import Meter, WaitMeter
from stoker.measure.threads import thread_time
from stoker.measure.whereabouts import NOWHERE, Whereabouts


class Consumer:
    """The last stage, as the loader sees it: the time between two `next()`."""

    def __init__(self) -> None:
        self.meter = Meter()
        self.waits = WaitMeter()
        """Waiting for a batch."""
        self._left_ns = self._left_cpu_ns = 0
        self._items = 0
        self._thread: threading.Thread | None = None
        self.whereabouts = Whereabouts()

    def hand_over(self, items: int) -> None:
        """The consumer gets items and goes its way."""
        self._items = items
        if self._thread is None:
            self._thread = threading.current_thread()
            self.whereabouts.enter()
        self.whereabouts.stage[0] = 0
        self._left_ns, self._left_cpu_ns = perf_counter_ns(), thread_time_ns()

    def come_back(self) -> None:
        """The consumer is back for more."""
        self.whereabouts.stage[0] = NOWHERE
        if self._left_ns:
            wall, cpu = perf_counter_ns() - self._left_ns, thread_time_ns() - self._left_cpu_ns
            self.meter.add(self._items, self._items, wall, max(cpu, 0), 0)
            self._left_ns = 0

    @property
    def runqueue_ns(self) -> int | None:
        """Time that the consumer's thread was ready and had no core, or None where unknown."""
        thread = self._thread
        if thread is None or not thread.ident or not thread.native_id or not thread.is_alive():
            return None
        return thread_time(thread.ident, thread.native_id).runqueue_ns
