"""What runs in a DataLoader's worker while the loader is watched.

It comes in as the loader's `worker_init_fn`, which runs once in each worker, before the
data set is used, however the worker was started. The worker belongs to the loader alone,
so nothing has to be put back in it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

from stoker.errors import reason_of
from stoker.watching import decoders
from stoker.watching import table as t
from stoker.watching.errors import clean_worker_errors
from stoker.watching.fetching import Watching, watch_fetcher, watched_fetchers
from stoker.watching.hooks import Hooks
from stoker.watching.members import find
from stoker.watching.meter import LOCAL, STEP, Meter
from stoker.watching.sampler import Sampler
from stoker.watching.table import Region, Table


class WorkerProbe:
    """Stands for a loader's `worker_init_fn`, and calls it."""

    def __init__(
        self, original: Callable[[int], object] | None, region: Region, cost: float
    ) -> None:
        self.original, self.region, self.cost = original, region, cost

    def __call__(self, worker_id: int) -> None:
        clean_worker_errors()
        if self.original is not None:
            self.original(worker_id)
        if worker_id >= self.region.count:
            return
        table = self.region.table(worker_id)
        try:
            _Worker(table, self.cost)
        except Exception as error:  # the job goes on, and the report says why it is unmetered
            LOCAL.meter = None
            table.cells[t.STARTED] = -1
            table.name_spot(0, reason_of(error))


class _Worker:
    """The meter of a worker and all that feeds it."""

    def __init__(self, table: Table, cost: float) -> None:
        import torch
        from torch.utils.data import get_worker_info

        info = get_worker_info()
        if info is None:  # somebody calls the loader's worker_init_fn outside a worker
            return
        begun_ns = time.thread_time_ns()
        self._threads = torch.get_num_threads
        cells = table.cells
        self._cells = cells
        self._watching: Watching | None = None
        self._meter = Meter(table, cost)
        self._places = find(info.dataset)
        decoders.acquire()
        # Never left: the loader makes a new fetcher here whenever it starts an epoch.
        self._patch = watched_fetchers(info.dataset, self._made)
        self._patch.__enter__()
        cells[t.PID] = os.getpid()
        cells[t.RUNQUEUE_NS] = -1
        cells[t.BASE_CPU_NS] = cells[t.PROCESS_CPU_NS] = time.process_time_ns()
        cells[t.BASE_MAIN_CPU_NS] = cells[t.MAIN_CPU_NS] = time.thread_time_ns()
        cells[t.READY_NS] = time.monotonic_ns()
        cells[t.STARTED] = 1
        self._meter.current = STEP
        LOCAL.meter = self._meter
        self._sampler = Sampler(self._meter, worker=True)
        self._sampler.start()
        cells[t.SETUP_CPU_NS] = time.thread_time_ns() - begun_ns
        _kept.append(self)

    def _made(self, fetcher: Any) -> None:
        if self._watching is None:
            places = [*self._places, *find(fetcher.collate_fn)]
            hooks = Hooks(self._meter, places, private=True) if places else None
            self._watching = Watching(self._meter, hooks, self._look_around)
        watch_fetcher(fetcher, self._watching)

    def _look_around(self) -> None:
        """See how many threads libraries are set to use, after a metered batch."""
        cells = self._cells
        self._sampler.count_threads()
        cells[t.TORCH_THREADS] = max(cells[t.TORCH_THREADS], self._threads())
        cv2 = sys.modules.get("cv2")
        if cv2 is not None and hasattr(cv2, "getNumThreads"):
            cells[t.CV2_THREADS] = max(cells[t.CV2_THREADS], int(cv2.getNumThreads()))


_kept: list[_Worker] = []
