"""With a watch or without one, a loop sees the same: batches, order, errors, state."""

from __future__ import annotations

import copy
import pickle
import random
import re
import threading
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from stoker.watching import watch

from .loaders import (
    Compose,
    EveryOther,
    Faulty,
    KeywordCompose,
    KeywordScale,
    Many,
    ModuleScale,
    Pairs,
    Rows,
    Rowwise,
    Scale,
    Stream,
    doubled,
    failing,
    loader,
    seed_workers,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:'pin_memory' argument is set:UserWarning"),
]

METHODS = [
    pytest.param({}, id="main"),
    pytest.param({"num_workers": 2, "multiprocessing_context": "fork"}, id="fork"),
    pytest.param(
        {"num_workers": 2, "multiprocessing_context": "spawn"}, id="spawn", marks=pytest.mark.slow
    ),
]


class Keyworded(Rows):
    def __getitem__(self, index: int) -> Any:
        fields = KeywordCompose([KeywordScale(), KeywordScale()])(image=torch.rand(2), label=index)
        return super().__getitem__(index) | fields


def _rows() -> Rows:
    return Rows(transform=Compose([Scale(), ModuleScale(), doubled]))


MADE: dict[str, Callable[..., DataLoader[Any]]] = {
    "map": lambda **kw: loader(_rows(), batch_size=5, **kw),
    "shuffled, last dropped": lambda **kw: loader(
        _rows(), batch_size=5, shuffle=True, drop_last=True, **kw
    ),
    "many at once": lambda **kw: loader(Many(), batch_size=4, **kw),
    "tensors": lambda **kw: loader(TensorDataset(torch.arange(20.0)), batch_size=6, **kw),
    "a list": lambda **kw: loader(list(range(10)), batch_size=3, **kw),
    "keywords": lambda **kw: loader(Keyworded(), batch_size=5, **kw),
    "sampler": lambda **kw: loader(Rows(), batch_size=3, sampler=EveryOther(24), **kw),
    "batch sampler": lambda **kw: loader(Rows(), batch_sampler=Pairs(9), **kw),
    "collate": lambda **kw: loader(Rows(), batch_size=4, collate_fn=Rowwise(), **kw),
    "no batches": lambda **kw: loader(Rows(5), batch_size=None, **kw),
    "stream": lambda **kw: loader(
        Stream(transform=Compose((Scale(), doubled))), batch_size=4, **kw
    ),
    "stream without batches": lambda **kw: loader(Stream(7), batch_size=None, **kw),
    "random sampler": lambda **kw: loader(Rows(), batch_size=7, shuffle=True, **kw),
}


def _seed() -> None:
    random.seed(1)
    numpy.random.seed(1)
    torch.manual_seed(1)


def _seen(loader: Any, epochs: int = 2, stop: int | None = None) -> list[Any]:
    """Return all that a loop sees of a loader."""
    _seed()
    seen: list[Any] = []
    for epoch in range(epochs):
        for number, batch in enumerate(loader):
            seen.append((epoch, number, _plain(batch)))
            if stop is not None and number == stop:
                break
    seen.append((torch.rand(1).item(), random.random(), float(numpy.random.rand())))
    return seen


def _failing(made: Any) -> tuple[list[Any], BaseException]:
    """Return the batches of an epoch that fails, and its error without a traceback.

    A traceback would keep the iterator in a cycle of references, in which torch's cannot be
    shut down without a delay.
    """
    _seed()
    got: list[Any] = []
    try:
        for batch in made:
            got.append(_plain(batch))
    except Exception as error:
        return got, error.with_traceback(None)
    raise AssertionError("no error was raised")


def _plain(thing: Any) -> Any:
    if isinstance(thing, torch.Tensor):
        return thing.tolist()
    if isinstance(thing, dict):
        return {key: _plain(value) for key, value in thing.items()}
    return [_plain(one) for one in thing] if isinstance(thing, (list, tuple)) else thing


@pytest.mark.parametrize("settings", METHODS[:2])
@pytest.mark.parametrize("name", MADE)
def test_same_batches_in_the_same_order(name: str, settings: dict[str, Any]) -> None:
    plain, watched = MADE[name](**settings), watch(MADE[name](**settings))
    expected = _seen(plain)
    assert len(expected) > 3
    assert _seen(watched) == expected
    assert len(watched) == len(plain) if name[:6] != "stream" else True
    _nothing_left(watched.dataset)


# Starting a worker by spawn imports torch: a few kinds will do.
@pytest.mark.slow
@pytest.mark.parametrize("name", ["map", "keywords", "stream", "collate"])
def test_same_batches_from_spawned_workers(name: str) -> None:
    settings = {"num_workers": 2, "multiprocessing_context": "spawn"}
    plain, watched = MADE[name](**settings), watch(MADE[name](**settings))
    assert _seen(watched, epochs=1) == _seen(plain, epochs=1)
    assert watched.report().stages[0].name == "getitem"


@pytest.mark.parametrize("settings", METHODS[:2])
def test_same_after_breaks(settings: dict[str, Any]) -> None:
    plain, watched = MADE["map"](**settings), watch(MADE["map"](**settings))
    assert _seen(watched, epochs=3, stop=1) == _seen(plain, epochs=3, stop=1)
    _nothing_left(watched.dataset)


@pytest.mark.parametrize("settings", METHODS[1:2])
def test_same_with_persistent_workers(settings: dict[str, Any]) -> None:
    more = {**settings, "persistent_workers": True, "worker_init_fn": seed_workers}
    plain, watched = (MADE["map"](**more), watch(MADE["map"](**more)))
    for made in (plain, watched):
        made.sampler  # the same access on both
    (batches, expected), (watched_batches, got) = _failing(plain), _failing(watched)
    assert watched_batches == batches
    assert "IndexError" in str(expected)
    assert _lines(str(got)) == _lines(str(expected))
    assert watched.worker_init_fn is seed_workers


@pytest.mark.parametrize("settings", METHODS[1:])
def test_persistent_workers_are_watched_in_all_epochs(settings: dict[str, Any]) -> None:
    made = loader(_rows(), batch_size=6, persistent_workers=True, **settings)
    watched, later = watch(made), watch(made)
    first = [batch["index"].tolist() for batch in watched]
    pids = {worker.pid for worker in made._iterator._workers}  # type: ignore[union-attr]
    assert [batch["index"].tolist() for batch in watched] == first
    assert {worker.pid for worker in made._iterator._workers} == pids  # type: ignore[union-attr]
    assert [batch["index"].tolist() for batch in later] == first
    assert watched.report().figures["batches"] == 8
    # The second watch saw one epoch of the same workers.
    assert later.report().figures["batches"] == 4
    assert later.report().figures["batch_size"] == 6.0


ERRORS = [ValueError("bad picture"), KeyError("missing"), RuntimeError("torn\nin two")]


@pytest.mark.parametrize("settings", METHODS[:2])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_same_error_from_the_data_set(error: Exception, settings: dict[str, Any]) -> None:
    batches, expected = _failing(loader(Faulty(9, error), batch_size=4, **settings))
    made = loader(Faulty(9, error), batch_size=4, **settings)
    watched_batches, raised = _failing(watch(made))
    assert watched_batches == batches
    assert type(raised) is type(expected)
    # A worker's error carries its traceback as text: none of our frames may be in it.
    assert _lines(str(raised)) == _lines(str(expected))
    _nothing_left(made.dataset)


@pytest.mark.parametrize("settings", METHODS)
def test_same_error_from_a_transform(settings: dict[str, Any]) -> None:
    def made() -> DataLoader[Any]:
        return loader(Rows(transform=Compose([Scale(), failing])), batch_size=4, **settings)

    (_, got), (_, expected) = _failing(watch(made())), _failing(made())
    assert type(got) is type(expected) is ValueError
    assert _lines(str(got)) == _lines(str(expected))


@pytest.mark.parametrize("settings", METHODS[1:2])
def test_same_error_when_a_worker_dies(settings: dict[str, Any]) -> None:
    made = watch(loader(_Exiting(), batch_size=4, **settings))
    assert "exited unexpectedly" in str(_failing(made)[1])
    assert made.report().figures["num_workers"] == 2


class _Exiting(Rows):
    def __getitem__(self, index: int) -> Any:
        if index == 13:
            import os

            os._exit(3)
        return super().__getitem__(index)


def test_an_error_in_the_loop_goes_its_way() -> None:
    made = loader(_rows(), batch_size=4)
    with pytest.raises(ZeroDivisionError):
        for _ in watch(made):
            1 / 0
    _nothing_left(made.dataset)


def test_a_data_set_that_cannot_be_sent_fails_as_ever() -> None:
    made = loader(Rows(transform=lambda row: row), num_workers=1, multiprocessing_context="spawn")
    with pytest.warns(UserWarning, match="pickle"), pytest.raises((AttributeError, TypeError)):
        iter(watch(made))
    assert made.worker_init_fn is None


def test_attributes_are_the_loaders_own() -> None:
    made = loader(Rows(), batch_size=4, sampler=DistributedSampler(Rows(), 2, 1))
    watched = watch(made)
    watched.sampler.set_epoch(3)
    assert made.sampler.epoch == 3  # type: ignore[attr-defined]
    watched.worker_init_fn = seed_workers
    watched.note = "kept"
    assert made.worker_init_fn is seed_workers
    assert made.note == "kept"  # type: ignore[attr-defined]
    del watched.note
    assert not hasattr(made, "note")
    assert watched.batch_size == 4
    assert isinstance(watched, DataLoader)
    assert bool(watched) is bool(made)
    assert set(dir(made)) <= set(dir(watched))
    with pytest.raises(ValueError, match="should not be set"):
        watched.batch_size = 5
    with pytest.raises(AttributeError, match="nothing_such"):
        watched.nothing_such


def test_a_copy_or_a_pickle_is_the_loader_itself() -> None:
    made = watch(DataLoader(Rows(6), batch_size=2))
    assert type(copy.copy(made)) is DataLoader
    assert type(pickle.loads(pickle.dumps(made))) is DataLoader


def test_the_state_of_the_parts_changes_alike() -> None:
    def used(wrap: Callable[[Any], Any]) -> tuple[Any, ...]:
        scale, collate, sampler = Scale(), Rowwise(), EveryOther(24)
        rows = Rows(transform=Compose([scale]))
        made = loader(rows, batch_size=5, sampler=sampler, collate_fn=collate)
        list(wrap(made))
        list(wrap(made))
        return rows.visited, scale.calls, collate.batches, sampler.epochs

    assert used(watch) == used(lambda made: made)


def test_the_data_set_may_change_between_and_in_epochs() -> None:
    rows = Rows(8, transform=Compose([Scale()]))
    watched = watch(loader(rows, batch_size=4))
    list(watched)
    rows.transform = doubled
    for number, _ in enumerate(watched):
        if number == 0:
            rows.transform = Compose([doubled, Scale()])
    assert isinstance(rows.transform, Compose)
    assert rows.transform.transforms[0] is doubled
    _nothing_left(rows)


def test_two_watches_of_one_loader_at_once() -> None:
    rows = _rows()
    made = loader(rows, batch_size=4)
    one, other = watch(made), watch(made)
    pairs = list(zip(one, other, strict=True))
    assert [left["index"].tolist() for left, _ in pairs] == [
        right["index"].tolist() for _, right in pairs
    ]
    assert one.report().figures["batches"] == other.report().figures["batches"] == 6
    _nothing_left(rows)


def test_watching_twice_is_watching_once() -> None:
    watched = watch(loader(Rows(), batch_size=4))
    assert watch(watched) is watched


def test_the_iterator_is_as_the_loaders_own() -> None:
    made = loader(Rows(), batch_size=4)
    iterator = iter(watch(made))
    assert iter(iterator) is iterator
    assert len(iterator) == 6  # type: ignore[arg-type]
    assert iterator._num_yielded == 0  # type: ignore[attr-defined]
    next(iterator)
    assert iterator._num_yielded == 1  # type: ignore[attr-defined]


def test_a_loader_made_anew_by_its_subclass() -> None:
    """A subclass that makes its iterator only when the first batch is asked for."""

    class Lazy(DataLoader[Any]):
        def __iter__(self) -> Any:
            for batch in super().__iter__():
                yield batch["index"]

    watched = watch(Lazy(_rows(), batch_size=8))
    assert torch.cat(list(watched)).tolist() == list(range(24))
    assert {row.name for row in watched.report().stages} >= {"getitem", "collate"}


def _lines(text: str) -> list[str]:
    # Where an object lies in memory differs from run to run.
    return re.sub(r"0x[0-9a-f]+", "0x", text).splitlines()


def _nothing_left(dataset: Any) -> None:
    from PIL import ImageFile

    assert "__call__" in Scale.__dict__
    assert Scale.__call__.__module__ == Scale.__module__
    assert not hasattr(Scale.__call__, "__wrapped__")
    assert "__call__" not in ModuleScale.__dict__
    assert not hasattr(ImageFile.ImageFile.load, "__wrapped__")
    transform = getattr(dataset, "transform", None)
    for member in getattr(transform, "transforms", ()):
        assert type(member).__module__ in (Scale.__module__, "builtins")
    assert not [one for one in threading.enumerate() if one.name == "stoker-watch"]
