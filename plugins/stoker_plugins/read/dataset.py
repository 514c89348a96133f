"""Other people's map-style datasets, and plain sequences."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from stoker.parameters import faults, param, shown
from stoker.rng import Rng
from stoker.sample import Address, Origin, Sample
from stoker.stages import Source, Surroundings, Worker
from stoker_plugins.read.items import Items, Make, says_iterable_only
from stoker_plugins.read.order import order


@dataclass(frozen=True)
class Dataset(Source):
    """Reads anything with a length and items by number: torch datasets, lists, ranges, arrays.

    A dict item keeps its fields. A pair becomes `data` and `target`, another tuple
    "0", "1" and so on, or what `fields` names; any other item becomes `data`. The key
    is the item's number as text, the URL the dataset's type; an item that is a dict
    may bring its own `__key__`.
    """

    name: ClassVar[str] = "read.dataset"
    example: ClassVar[str] = 'read.Dataset(my_dataset, fields=("image", "label"), shuffle=True)'

    __repr__ = shown

    dataset: Any = param(help="a map-style dataset or a sequence")
    fields: tuple[str, ...] | None = param(None, "names for the parts of a tuple item")
    shuffle: bool = param(False, "another order in each epoch")

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield why the dataset cannot be read by number. No item is read."""
        if any(faults(self)):
            return
        fault = _fault(self.dataset)
        if fault:
            yield f"dataset, of type {type(self.dataset).__name__}, {fault}"
        if self.fields is not None and len(set(self.fields)) < max(1, len(self.fields)):
            yield f"fields={self.fields}: allowed are one or more different names"

    def addresses(self, epoch: int, rng: Rng) -> Sequence[Address]:
        """Return this epoch's order of item numbers."""
        return order(len(self.dataset), self.shuffle, rng)

    def content(self) -> str:
        """Return the length, and the fingerprint of a dataset that keeps one.

        More cannot be told without reading all items: a dataset that changes in place, at
        the same length, is taken for the same.
        """
        marks = (getattr(self.dataset, name, None) for name in ("fingerprint", "_fingerprint"))
        mark = next((mark for mark in marks if isinstance(mark, (str, int, bytes))), "")
        return f"{len(self.dataset)} {mark!r}"

    def read(self, address: Address) -> Sample:
        """Return one item as a sample."""
        with self.open(Worker()) as read:
            return read(address)

    def origin(self, address: Address) -> Origin:
        """Return the item's number as its key, and the dataset's type."""
        return Origin(str(address), type(self.dataset).__name__, None)

    @contextmanager
    def open(self, worker: Worker) -> Iterator[Callable[[Address], Sample]]:
        """Yield what reads an item by number."""
        items = Items(type(self.dataset).__name__, self.fields)
        makers: dict[type, Make] = {}
        dataset, find = self.dataset, makers.get

        def read(address: Any) -> Sample:
            item = dataset[address]
            make = find(type(item))
            if make is None:
                make = makers[type(item)] = items.maker(type(item))
            return make(address, item)

        yield read


def _fault(dataset: Any) -> str | None:
    """Return why a dataset cannot be read by number, or None."""
    iterable = hasattr(dataset, "__iter__")
    if isinstance(dataset, (str, bytes)):
        return "is text, not a dataset; make the dataset in the function that makes the pipeline"
    if isinstance(dataset, type):
        return f"is the class {dataset.__name__}; make one: {dataset.__name__}(...)"
    if isinstance(dataset, Mapping):
        return "is a mapping, which has no order of items by number; give list(dataset.values())"
    if says_iterable_only(dataset) or (iterable and not hasattr(dataset, "__getitem__")):
        return "can only be iterated; use read.DatasetStream"
    if not hasattr(dataset, "__getitem__"):
        return "has no __getitem__, so it is no dataset"
    try:
        length = operator.index(len(dataset))
    except Exception as error:  # other people's code: whatever it raises is the fault
        return f"has no length ({type(error).__name__}: {error}); define __len__"
    return None if length > 0 else "is empty"
