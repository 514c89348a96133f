"""Meters: what each stage did, counted by each worker for itself.

A meter has one writer, so it needs no lock; readers see values that are at
most one chunk old. Two clock reads serve a whole chunk of samples:
`perf_counter_ns` (0.1 µs) and `thread_time_ns` (0.6–1 µs).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from stoker.measure.histogram import Histogram


class Meter:
    """What one worker did in one stage."""

    __slots__ = ("cpu_ns", "failures", "histogram", "items_in", "items_out", "nbytes", "wall_ns")

    def __init__(self) -> None:
        self.items_in = self.items_out = self.failures = self.nbytes = 0
        self.wall_ns = self.cpu_ns = 0
        self.histogram = Histogram()

    def add(self, items_in: int, items_out: int, wall_ns: int, cpu_ns: int, nbytes: int) -> None:
        """Count one chunk: items in and out, its time on the clock and on a core, bytes out."""
        self.items_in += items_in
        self.items_out += items_out
        self.wall_ns += wall_ns
        self.cpu_ns += cpu_ns
        self.nbytes += nbytes
        if items_in:
            self.histogram.add(wall_ns // items_in, items_in)


class WaitMeter:
    """How one worker spent the time between its chunks."""

    __slots__ = ("_ended", "since_ns", "waits_for_output")

    def __init__(self) -> None:
        # Waits for input and output in ns, and when the last of them began: stored as one,
        # so that a reader in another thread sees a wait as open or as ended, never as both.
        self._ended = (0, 0, 0)
        self.since_ns = 0
        """When the present wait began, 0 while working: readers close the open interval."""
        self.waits_for_output = False

    def end(self, now_ns: int) -> None:
        """Close the present wait."""
        begun = self.since_ns
        input_ns, output_ns, _ = self._ended
        if self.waits_for_output:
            output_ns += now_ns - begun
        else:
            input_ns += now_ns - begun
        self._ended = (input_ns, output_ns, begun)
        self.since_ns = 0

    def read(self, now_ns: int) -> tuple[int, int]:
        """Return ns waited for input and for output, the present wait included."""
        begun, output = self.since_ns, self.waits_for_output
        input_ns, output_ns, last_begun = self._ended  # read after `since_ns`
        waiting = max(now_ns - begun, 0) if begun > last_begun else 0
        return input_ns + waiting * (not output), output_ns + waiting * output


@dataclass
class Totals:
    """What a stage did, over all workers; subtract two to get a window."""

    items_in: int = 0
    items_out: int = 0
    failures: int = 0
    nbytes: int = 0
    wall_ns: int = 0
    cpu_ns: int = 0
    histogram: Histogram = field(default_factory=Histogram)

    @classmethod
    def of(cls, meters: Iterable[Meter]) -> Totals:
        """Return the sum over meters."""
        total = cls()
        for meter in meters:
            total.items_in += meter.items_in
            total.items_out += meter.items_out
            total.failures += meter.failures
            total.nbytes += meter.nbytes
            total.wall_ns += meter.wall_ns
            total.cpu_ns += meter.cpu_ns
            total.histogram.merge(meter.histogram)
        return total

    def __sub__(self, earlier: Totals) -> Totals:
        return Totals(
            self.items_in - earlier.items_in,
            self.items_out - earlier.items_out,
            self.failures - earlier.failures,
            self.nbytes - earlier.nbytes,
            self.wall_ns - earlier.wall_ns,
            self.cpu_ns - earlier.cpu_ns,
            self.histogram.minus(earlier.histogram),
        )


class Gauge:
    """Time-weighted fill of a buffer. Closes the open interval when read."""

    __slots__ = ("_start_ns", "_state", "peak")

    def __init__(self, now_ns: int) -> None:
        self._start_ns = now_ns
        self._state = (0, 0, now_ns)  # level, area, and since when: stored as one for readers
        self.peak = 0

    @property
    def level(self) -> int:
        """What the buffer holds now."""
        return self._state[0]

    def change(self, by: int, now_ns: int) -> None:
        """Let the level rise or fall; the caller holds the buffer's lock."""
        level, area, since_ns = self._state
        self._state = (level + by, area + level * (now_ns - since_ns), now_ns)
        self.peak = max(self.peak, level + by)

    def area(self, now_ns: int) -> int:
        """Return the integral of the level over time, in items x ns, up to now."""
        level, area, since_ns = self._state
        return area + level * max(now_ns - since_ns, 0)

    def mean(self, now_ns: int) -> float:
        """Return the mean level since the start."""
        return self.area(now_ns) / max(now_ns - self._start_ns, 1)
