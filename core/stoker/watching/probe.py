"""Putting meters into a loader for one pass, and taking them out again.

A loader's own attributes differ only while its iterator is made: that is when workers
start and fetchers come to be. What happens in the main process stays metered until the
pass ends.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from stoker.measure.threads import thread_time
from stoker.watching import decoders
from stoker.watching.fetching import Watching, watch_fetcher, watched_fetchers
from stoker.watching.figures import Figures, counts_of
from stoker.watching.hooks import Hooks
from stoker.watching.members import Place, find
from stoker.watching.meter import FETCH, Meter
from stoker.watching.table import Region
from stoker.watching.worker import WorkerProbe


class Tables:
    """Where the workers of one watched loader write, over all passes."""

    def __init__(self) -> None:
        self._done = Figures()
        self._live: list[tuple[Region, list[dict[int, int]]]] = []
        self.unmetered = False
        """Workers were there before anybody watched."""

    def follow(self, region: Region, *, known: bool) -> None:
        """Read a region from now on."""
        if any(region is other for other, _ in self._live):
            return
        tables = [region.table(worker) for worker in range(region.count)]
        self._live.append((region, [counts_of(table) if known else {} for table in tables]))

    def settle(self, region: Region) -> None:
        """Add up a region whose workers end now."""
        for place, (other, since) in enumerate(self._live):
            if other is region:
                _add(self._done, region, since)
                del self._live[place]
                return

    def read(self) -> Figures:
        """Return all figures up to now."""
        figures = Figures()
        figures.merge(self._done)
        for region, since in self._live:
            _add(figures, region, since)
        return figures


def _add(figures: Figures, region: Region, since: list[dict[int, int]]) -> None:
    for worker in range(region.count):
        figures.add(region.table(worker), since[worker] or None)


# Where the workers of an iterator that lives on write, whoever watches it.
_regions: weakref.WeakKeyDictionary[Any, Region] = weakref.WeakKeyDictionary()


class Probe:
    """Meters for one pass over an iterable."""

    def __init__(self, iterable: Any, loaders: list[Any], meter: Meter, tables: Tables) -> None:
        self._iterable, self._loaders = iterable, loaders
        self._meter, self._tables = meter, tables
        self._window = ExitStack()
        self._installed = ExitStack()
        self._regions: list[Region] = []
        self._iterator: Any = None
        self.in_main = [loader for loader in loaders if not loader.num_workers]
        self.pin_cpu_ns = 0
        self._capacity = 0

    def open(self) -> Any:
        """Return the iterable's own iterator, metered."""
        places: list[Place] = []
        for loader in self._loaders:
            if not loader.num_workers:
                places += [*find(loader.dataset), *find(loader.collate_fn)]
        if not self._loaders:
            places = find(self._iterable)
        if not self._loaders or self.in_main:
            self._meter_main(places)
        try:
            for loader in self._loaders:
                self._watch_workers(loader)
            self._iterator = iter(self._iterable)
        except BaseException:
            self._window.close()
            raise
        self._learn()
        return self._iterator

    def opened(self) -> None:
        """The first batch is there, so all that a loader starts with is made."""
        self._window.close()

    def close(self) -> None:
        """Put everything back."""
        self._window.close()
        self._installed.close()
        for region in self._regions:
            self._tables.settle(region)

    def metered(self, following: Callable[[], Any]) -> Callable[[], Any]:
        """Return an iterator's `__next__`, metered as a whole where no fetcher of it is."""
        if self.in_main or self._loaders == [self._iterable]:
            return following
        meter = self._meter

        def metered_next() -> Any:
            outer = meter.current
            meter.enter(FETCH, time.perf_counter_ns())
            try:
                if meter.start_batch():
                    return meter.call(FETCH, following, (), {})
                return following()
            finally:
                meter.end_batch(1)
                meter.enter(outer, time.perf_counter_ns())

        return metered_next

    def fill(self) -> float | None:
        """Return the share of batches in flight that are ready, or None where nobody tells."""
        iterator = self._iterator
        if not self._capacity:
            return None
        pin = getattr(iterator, "_pin_memory_thread", None)
        if pin is not None and pin.is_alive():
            self.pin_cpu_ns = thread_time(pin.ident, pin.native_id).cpu_ns or self.pin_cpu_ns
        try:
            waiting = iterator._data_queue.qsize() if pin else iterator._worker_result_queue.qsize()
            early = len(iterator._task_info) - iterator._tasks_outstanding
        except (AttributeError, NotImplementedError, OSError):
            self._capacity = 0
            return None
        return min(float(waiting + early) / self._capacity, 1.0)

    def _meter_main(self, places: list[Place]) -> None:
        decoders.acquire()
        self._installed.callback(decoders.release)
        hooks = Hooks(self._meter, places, private=False)
        self._installed.callback(hooks.remove)
        for loader in self.in_main:
            watching = Watching(self._meter, hooks if places else None)
            made = _watcher(watching)
            try:
                self._window.enter_context(watched_fetchers(loader.dataset, made))
            except (AttributeError, KeyError, ImportError):
                self._tables.unmetered = True

    def _watch_workers(self, loader: Any) -> None:
        """Let the workers that a loader is about to start meter themselves."""
        if not loader.num_workers:
            return
        present = getattr(loader, "_iterator", None) if loader.persistent_workers else None
        if present is not None:
            region = _regions.get(present)
            if region is None:
                self._tables.unmetered = True
            else:
                self._tables.follow(region, known=True)
            return
        region = Region(loader.num_workers)
        self._tables.follow(region, known=False)
        if not loader.persistent_workers:
            self._regions.append(region)
        self._window.enter_context(_probing(loader, region, self._meter.cost))

    def _learn(self) -> None:
        """See what came out of `iter`."""
        if self._loaders != [self._iterable]:
            return
        made = hasattr(self._iterator, "_dataset_kind")
        if made:
            self._window.close()  # all was made at once: nothing is left for the first batch
        loader = self._iterable
        if made and loader.num_workers:
            self._capacity = loader.num_workers * (loader.prefetch_factor or 2)


def _watcher(watching: Watching) -> Callable[[Any], None]:
    return lambda fetcher: watch_fetcher(fetcher, watching)


@contextmanager
def _probing(loader: Any, region: Region, cost: float) -> Iterator[None]:
    """Let a loader start its workers with a probe in place of its `worker_init_fn`."""
    original = loader.worker_init_fn
    if isinstance(original, WorkerProbe):  # somebody else is about to start them, too
        original = original.original
    probe = WorkerProbe(original, region, cost)
    loader.worker_init_fn = probe
    before = loader._iterator
    try:
        yield
    finally:
        if loader.worker_init_fn is probe:
            loader.worker_init_fn = original
        region.seal()
        made = loader._iterator
        if made is not None and made is not before:
            _regions[made] = region
