"""One pass over a watched loader: its iterator, with a clock on both sides of `next()`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from stoker.watching.errors import without_our_frames
from stoker.watching.loops import Epoch, Loop
from stoker.watching.meter import LOCAL, NEXT, STEP, Meter
from stoker.watching.probe import Probe
from stoker.watching.sampler import Sampler

# Looked at: the first batches, whose shapes the rest is expected to have.
_LOOKS: Final = 4
# Readings that cost microseconds are spaced out to this share of the loop's time.
_SHARE: Final = 0.001
_READING_NS: Final = 6_000


class Iteration:
    """Gives exactly what the loader's own iterator gives; all else goes to that iterator."""

    def __init__(self, loop: Loop, meter: Meter, sampler: Sampler, probe: Probe) -> None:
        self._stoker = _Pass(loop, meter, sampler, probe)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self._stoker.next()

    def __len__(self) -> int:
        return len(self._stoker.iterator)

    def __bool__(self) -> bool:
        return bool(self._stoker.iterator)

    def __getattr__(self, name: str) -> Any:
        if name == "_stoker":  # not made yet
            raise AttributeError(name)
        return getattr(self._stoker.iterator, name)

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        mine = self.__dict__.get("_stoker")
        if mine is not None and not finalizing():
            mine.finish()


class _Pass:
    __slots__ = (
        "_begun", "_cpu_left", "_due", "_epoch", "_finished", "_left_ns", "_loop", "_meter",
        "_next", "_probe", "_sampler", "iterator",
    )  # fmt: skip

    def __init__(self, loop: Loop, meter: Meter, sampler: Sampler, probe: Probe) -> None:
        began = time.perf_counter_ns()
        self._loop, self._meter, self._sampler, self._probe = loop, meter, sampler, probe
        self._epoch: Epoch = loop.new_epoch(began)
        self._finished = False
        self._due = 0
        self._cpu_left: int | None = None
        self._begun = loop.spent.begin()
        sampler.stop()  # no thread of ours is there when workers fork
        try:
            self.iterator = probe.open()
        except BaseException:
            self.finish()
            raise
        self._next = probe.metered(self.iterator.__next__)
        self._left_ns = time.perf_counter_ns()
        self._epoch.make_ns = self._left_ns - began

    def next(self) -> Any:
        """Return the next batch."""
        entered = time.perf_counter_ns()
        epoch, meter, sampler = self._epoch, self._meter, self._sampler
        if epoch.batches:
            self._loop.steps.add(entered - self._left_ns)
            epoch.step_ns += entered - self._left_ns
        if not sampler.alive and not self._finished and epoch.batches:
            sampler.start()
        if self._cpu_left is not None:
            self._loop.step_cpu[0] += time.process_time_ns() - self._cpu_left
            self._loop.step_cpu[1] += 1
            self._cpu_left = None
        reading = entered >= self._due
        if reading:
            self._read_queue(epoch)
            cpu = time.thread_time_ns()
        outer, LOCAL.meter = LOCAL.meter, meter
        meter.enter(NEXT, entered)
        try:
            batch = self._next()
        except StopIteration:
            self._end(entered)
            raise
        except BaseException as error:
            self.finish()
            without_our_frames(error)
            raise
        finally:
            LOCAL.meter = outer
            left = time.perf_counter_ns()
            meter.enter(STEP, left)
        if reading:
            self._read(cpu, batch, left)
        self._count(left - entered)
        self._left_ns = time.perf_counter_ns()
        return batch

    def _count(self, waited: int) -> None:
        epoch = self._epoch
        if epoch.batches:
            self._loop.waits.add(waited)
            epoch.wait_ns += waited
        else:
            epoch.first_ns = waited
            self._probe.opened()
        epoch.batches += 1
        self._sampler.touched = time.monotonic()

    def _read_queue(self, epoch: Epoch) -> None:
        fill = self._probe.fill() if epoch.batches else None
        if fill is not None:
            self._loop.fills[0] += fill
            self._loop.fills[1] += 1

    def _read(self, cpu: int, batch: Any, now: int) -> None:
        loop = self._loop
        loop.next_cpu[0] += time.thread_time_ns() - cpu
        loop.next_cpu[1] += 1
        if loop.looked_at < _LOOKS:
            loop.look_at(batch)
        spent = time.perf_counter_ns() - now + _READING_NS
        self._due = now + round(spent / _SHARE)
        self._cpu_left = time.process_time_ns()

    def _end(self, entered: int) -> None:
        if not self._finished:
            self._epoch.complete = True
            self._epoch.end_ns = time.perf_counter_ns() - entered
            self.finish()

    def finish(self) -> None:
        """Put everything back; the iterator itself goes on as it would."""
        if self._finished:
            return
        self._finished = True
        self._sampler.stop()
        self._loop.spent.end(self._begun)
        self._loop.pin_cpu_ns += self._probe.pin_cpu_ns
        self._probe.close()
