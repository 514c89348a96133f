"""The consumer: whoever takes batches from the loader, measured as the last stage."""

from __future__ import annotations

from time import perf_counter_ns, thread_time_ns

from stoker.measure.meter import Meter, WaitMeter


class Consumer:
    """The last stage, as the loader sees it: the time between two `next()`."""

    def __init__(self) -> None:
        self.meter = Meter()
        self.waits = WaitMeter()
        """Waiting for a batch."""
        self._left_ns = self._left_cpu_ns = 0
        self._items = 0

    def hand_over(self, items: int) -> None:
        """The consumer gets items and goes its way."""
        self._items = items
        self._left_ns, self._left_cpu_ns = perf_counter_ns(), thread_time_ns()

    def come_back(self) -> None:
        """The consumer is back for more."""
        if self._left_ns:
            wall, cpu = perf_counter_ns() - self._left_ns, thread_time_ns() - self._left_cpu_ns
            self.meter.add(self._items, self._items, wall, max(cpu, 0), 0)
            self._left_ns = 0
