"""A thread that looks at another one, a few dozen times a second.

It tells Python from C code and finds the hot places. It lives no longer than what it
watches, and ends before any fork, so that a process forks with the threads it had.
"""

from __future__ import annotations

import _thread
import os
import random
import sys
import threading
import time
import weakref
from typing import Final

from stoker.watching import table as t
from stoker.watching.clocks import thread_cpu_ns
from stoker.watching.frames import doing, spot_of
from stoker.watching.meter import FETCH, STEP, WAITING, Meter

NAME: Final = "stoker-watch"
FASTEST_HZ: Final = 50.0
# Of what watching may cost, whatever a look costs on this machine. A short life begins with
# some to spend.
_SAMPLING: Final = 0.25
SPARE_S: Final = 0.0003
_MOST_S: Final = 0.001
# A look this late asks how much of that was waiting for a core.
_LATE_NS: Final = 100_000
# Waking up takes 0.06 to 0.15 ms on a busy core and up to 0.25 on an idle one. A wait of
# more than twice the shortest one was for the GIL, within these bounds.
_FREE_NS: Final = (200_000, 300_000)
# Without a sign of life from the loop the thread ends; the next batch starts another.
_IDLE_S: Final = 60.0
# By name, threads of a worker that are accounted for: the first sends batches to the parent.
_THREADS: Final = {"QueueFeederThread": t.FEEDER_CPU_NS, NAME: t.SAMPLER_CPU_NS}
_COUNTS: Final = {"python": t.PYTHON, "held": t.HELD, "released": t.RELEASED}
_SPOT_COUNTS: Final = {"python": t.SPOT_PYTHON, "held": t.SPOT_HELD, "released": t.SPOT_RELEASED}

_running: weakref.WeakSet[Sampler] = weakref.WeakSet()


class Sampler:
    """Samples the thread that starts it, into the table of its meter."""

    def __init__(self, meter: Meter, *, worker: bool, processes: int = 1) -> None:
        """Make a sampler; `start` starts it.

        Args:
            meter: of the thread that is to be sampled.
            worker: whether this is a worker, which waits for work outside of its stages.
            processes: that do the work of which the cost is a share.
        """
        self._meter = weakref.ref(meter)
        self._table = meter.table
        self._share = _SAMPLING * meter.cost * processes
        self._worker = worker
        self._target = self._target_native = 0
        self._stop = _thread.allocate_lock()
        self._spots: dict[str, int] = {}
        self._shortest_ns = _FREE_NS[1]
        self._draw = random.Random(id(self))
        self.touched = time.monotonic()
        self._thread: threading.Thread | None = None

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread is not None

    def start(self) -> None:
        """Start the thread."""
        if self._thread is None:
            self._stop = _thread.allocate_lock()
            self._stop.acquire()
            self.touched = time.monotonic()
            self._target = threading.get_ident()
            self._target_native = threading.get_native_id()
            self._thread = threading.Thread(target=self._run, name=NAME, daemon=True)
            _running.add(self)
            self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for that."""
        thread, self._thread = self._thread, None
        _running.discard(self)
        if thread is not None:
            if self._stop.locked():
                self._stop.release()
            if thread is not threading.current_thread():
                thread.join()

    def _run(self) -> None:
        own, target = _RunQueue(threading.get_native_id()), _RunQueue(self._target_native)
        with own as queue, target:
            stop, pause, ticks = self._stop, 1.0 / FASTEST_HZ, 0
            begun, begun_cpu, spent_s = time.perf_counter(), time.process_time(), 0.0
            while True:
                before = time.thread_time()
                queue.mark()
                pause *= self._draw.uniform(0.6, 1.4)
                wake_ns = time.perf_counter_ns() + round(pause * 1e9)
                if stop.acquire(True, pause):
                    return
                waited_ns = time.perf_counter_ns() - wake_ns
                meter = self._meter()
                if meter is None or self._idle():
                    return
                delayed_ns = queue.since_mark() if waited_ns > _LATE_NS else 0
                self._look(meter, wake_ns, waited_ns, min(delayed_ns, waited_ns))
                del meter
                ticks += 1
                if self._worker and ticks % 4 == 1:
                    self.count_threads()
                    self._table.cells[t.RUNQUEUE_NS] = target.read()
                # A garbage collection that happens to start here is not the sampler's.
                spent_s += min(time.thread_time() - before, _MOST_S)
                wall, cpu = time.perf_counter() - begun, time.process_time() - begun_cpu
                earned = SPARE_S + self._share * (cpu + WAITING * wall)
                rate = self._share * (cpu / wall + WAITING)  # earned in a second
                pause = max((spent_s - earned) / rate, 1.0 / FASTEST_HZ)

    def _idle(self) -> bool:
        if self._worker or time.monotonic() - self.touched < _IDLE_S:
            return False
        self._thread = None
        return True

    def _look(self, meter: Meter, wake_ns: int, waited_ns: int, delayed_ns: int) -> None:
        """Count what the thread was doing when the sampler woke up.

        Args:
            meter: the thread's.
            wake_ns: when the sampler was to wake up.
            waited_ns: how much later it could go on.
            delayed_ns: how much of that it waited for a core, the rest for the GIL.
        """
        slot, now = meter.slot_at(wake_ns + delayed_ns), meter.current
        if slot is None or (self._worker and slot == STEP):
            return  # too long ago; or it waited for work
        frame = sys._current_frames().get(self._target)
        if frame is None:
            return
        name, collating = spot_of(frame, sources=not self._worker)
        blocked_ns = waited_ns - delayed_ns
        self._shortest_ns = min(self._shortest_ns, blocked_ns)
        free_ns = min(max(2 * self._shortest_ns, _FREE_NS[0]), _FREE_NS[1])
        found = doing(frame, blocked_ns / 1e9, free_ns / 1e9)
        # Transforms are told apart in metered batches only, so that shares stay true.
        if not meter.on and slot > FETCH:
            slot = FETCH
        cells = self._table.cells
        cells[t.HEADER + slot * t.SLOT + _COUNTS[found]] += 1
        if now != slot:
            return  # it went on before it could be looked at
        spot = self._spots.get(name)
        if spot is None:
            spot = self._new_spot(name, slot, collating)
        if spot is not None:
            cells[t.SPOTS_AT + spot * t.SPOT + _SPOT_COUNTS[found]] += 1

    def _new_spot(self, name: str, slot: int, collating: bool) -> int | None:
        spot = len(self._spots)
        if spot >= t.SPOT_COUNT:
            return None
        self._spots[name] = spot
        at = t.SPOTS_AT + spot * t.SPOT
        self._table.cells[at + t.SPOT_SLOT] = slot
        self._table.cells[at + t.SPOT_COLLATING] = collating
        self._table.name_spot(spot, name)
        return spot

    def count_threads(self) -> None:
        """Write down what a worker and its threads have used, all at one moment."""
        cells = self._table.cells
        cells[t.PROCESS_CPU_NS] = time.process_time_ns()
        spent = thread_cpu_ns(self._target, self._target_native)
        cells[t.MAIN_CPU_NS] = spent or cells[t.MAIN_CPU_NS]
        for thread in threading.enumerate():
            cell = _THREADS.get(thread.name)
            if cell is not None and thread.ident and thread.native_id:
                cells[cell] = thread_cpu_ns(thread.ident, thread.native_id) or cells[cell]


class _RunQueue:
    """How long a thread has waited for a core, from a file that is kept open."""

    def __init__(self, native_id: int) -> None:
        self._name = f"/proc/self/task/{native_id}/schedstat"
        self._file: int | None = None
        self._mark = 0

    def __enter__(self) -> _RunQueue:
        try:
            self._file = os.open(self._name, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # then nobody tells
            self._file = None
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            os.close(self._file)

    def mark(self) -> None:
        """Count from now on."""
        self._mark = self.read()

    def since_mark(self) -> int:
        """Return ns waited since the mark, 0 where the system does not tell."""
        return self.read() - self._mark

    def read(self) -> int:
        """Return ns waited, -1 where the system does not tell."""
        # on-CPU ns, run-queue ns, timeslices (kernel: Documentation/scheduler/sched-stats)
        fields = os.pread(self._file, 96, 0).split() if self._file is not None else ()
        return int(fields[1]) if len(fields) > 1 else -1


def pause_all() -> None:
    """End all samplers of this process; each starts again with its loop's next batch."""
    for sampler in list(_running):
        sampler.stop()


def _forget() -> None:
    """In a forked child none of the threads exists."""
    _running.clear()


os.register_at_fork(before=pause_all, after_in_child=_forget)
