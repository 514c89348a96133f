"""Metering inside a DataLoader's fetcher: items, collate and whole batches.

The fetcher is what calls the data set and collate, in a worker as well as in the main
process. Only it sees metered ones, and only in batches that are metered: the data set
that the person's code sees is untouched.
"""

from __future__ import annotations

import functools
import operator
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from stoker.watching import decoders
from stoker.watching import table as t
from stoker.watching.hooks import Hooks
from stoker.watching.meter import COLLATE, DATASET, FETCH, LOCAL, Meter


class Watching:
    """What a fetcher carries while it is watched."""

    def __init__(
        self, meter: Meter, hooks: Hooks | None, look_around: Callable[[], None] | None = None
    ) -> None:
        self.meter, self.hooks, self._look_around = meter, hooks, look_around
        self.items = 0

    def settle(self) -> None:
        """After a metered batch: drop hooks that cost too much, see what changed around."""
        if self.hooks is not None and self.meter.too_many_hooks:
            self.hooks.remove()
            self.hooks = None
        decoders.install()
        if self._look_around is not None:
            self._look_around()


class _Fetching:
    """Mixed into a fetcher's class."""

    _stoker: Watching
    dataset: Any
    collate_fn: Any

    def fetch(self, index: Any) -> Any:
        watching = self._stoker
        meter = watching.meter
        fetch: Callable[[Any], Any] = super().fetch  # type: ignore[misc]
        if LOCAL.meter is not meter:
            return fetch(index)
        watching.items = len(index) if isinstance(index, (list, tuple)) else 1
        outer = meter.current
        meter.enter(FETCH, time.perf_counter_ns())
        try:
            if meter.start_batch():
                with self._metered(watching, index):
                    return meter.call(FETCH, fetch, (index,), {})
            return fetch(index)
        finally:
            metered = meter.on
            meter.end_batch(watching.items)
            meter.enter(outer, time.perf_counter_ns())
            if metered:
                watching.settle()

    @contextmanager
    def _metered(self, watching: Watching, index: Any) -> Iterator[None]:
        dataset, collate, meter = self.dataset, self.collate_fn, watching.meter
        together = isinstance(index, (list, tuple)) and getattr(self, "auto_collation", True)
        self.collate_fn = functools.partial(_collated, meter, collate, together)
        items = getattr(self, "dataset_iter", None)
        if items is not None:
            watching.items = 0
            self.dataset_iter = _Items(items, watching)
        elif callable(getattr(dataset, "__getitems__", None)):
            self.dataset = _ManyView(dataset, meter)
        else:
            self.dataset = _View(dataset, meter)
        try:
            yield
        finally:
            self.dataset, self.collate_fn = dataset, collate
            if items is not None:
                self.dataset_iter = items


def _collated(meter: Meter, collate: Callable[[Any], Any], together: bool, samples: Any) -> Any:
    batch = meter.call(COLLATE, collate, (samples,), {})
    if together and isinstance(samples, list) and samples:
        same = isinstance(batch, list) and len(batch) == len(samples) and batch[0] is samples[0]
        meter.cells[t.LISTS] += same
    return batch


class _View:
    """A data set as its fetcher sees it in a metered batch."""

    __slots__ = ("_dataset", "_meter")

    def __init__(self, dataset: Any, meter: Meter) -> None:
        self._dataset, self._meter = dataset, meter

    def __getitem__(self, index: Any) -> Any:
        item = self._meter.call(DATASET, operator.getitem, (self._dataset, index), {})
        self._meter.note_item(index)
        return item

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)


class _ManyView(_View):
    """Of a data set that gives all items of a batch at once."""

    __slots__ = ()

    def __getitems__(self, indices: Any) -> Any:
        return self._meter.call(DATASET, self._dataset.__getitems__, (indices,), {})


class _Items:
    """The iterator of an iterable data set in a metered batch."""

    __slots__ = ("_items", "_watching")

    def __init__(self, items: Iterator[Any], watching: Watching) -> None:
        self._items, self._watching = items, watching

    def __iter__(self) -> _Items:
        return self

    def __next__(self) -> Any:
        watching = self._watching
        item = watching.meter.call(DATASET, next, (self._items,), {})
        watching.items += 1
        watching.meter.note_item(None)
        return item

    def __getattr__(self, name: str) -> Any:
        return getattr(self._items, name)


_classes: weakref.WeakKeyDictionary[type, type] = weakref.WeakKeyDictionary()


def watch_fetcher(fetcher: Any, watching: Watching) -> None:
    """Let a fetcher meter what it does."""
    cls = type(fetcher)
    watched = _classes.get(cls)
    if watched is None:
        watched = type(cls.__name__, (_Fetching, cls), {"__module__": cls.__module__})
        _classes[cls] = watched
    fetcher.__class__ = watched
    fetcher._stoker = watching


@contextmanager
def watched_fetchers(dataset: object, made: Callable[[Any], None]) -> Iterator[None]:
    """While entered, `made` is told of every fetcher that this thread makes for a data set.

    Raises:
        AttributeError: this torch makes its fetchers in another way.
    """
    from torch.utils.data import _DatasetKind

    kind: Any = _DatasetKind
    before = kind.__dict__["create_fetcher"]
    create, thread = kind.create_fetcher, threading.get_ident()

    def create_fetcher(*args: Any, **kwargs: Any) -> Any:
        fetcher = create(*args, **kwargs)
        if threading.get_ident() == thread and getattr(fetcher, "dataset", None) is dataset:
            made(fetcher)
        return fetcher

    ours = staticmethod(create_fetcher)
    kind.create_fetcher = ours
    try:
        yield
    finally:
        if kind.__dict__.get("create_fetcher") is ours:
            kind.create_fetcher = before
