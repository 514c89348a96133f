"""What `stoker.watch` returns, for loaders of all kinds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import stoker
from stoker.errors import UsageError
from stoker.watching import watch


class Sized:
    def __init__(self, batches: list[int]) -> None:
        self.batches = batches
        self.opened = False

    def __iter__(self) -> Iterator[int]:
        return iter(self.batches)

    def __len__(self) -> int:
        return len(self.batches)

    def __enter__(self) -> Sized:
        self.opened = True
        return self

    def __exit__(self, *error: object) -> None:
        self.opened = False


class Indexed:
    """Iterated by index, as `iter` allows."""

    def __getitem__(self, index: int) -> int:
        if index == 3:
            raise IndexError(index)
        return index


def generated(count: int) -> Iterator[int]:
    yield from range(count)


@pytest.mark.parametrize(
    "make", [lambda: [0, 1, 2], lambda: Sized([0, 1, 2]), Indexed, lambda: range(3)]
)
def test_any_iterable(make: Any) -> None:
    made = make()
    watched = stoker.watch(made)
    assert list(watched) == list(watched) == [0, 1, 2]
    assert isinstance(watched, type(made))
    assert watched.report().figures["batches"] == 6
    assert hasattr(watched, "__len__") is hasattr(made, "__len__")
    assert hasattr(watched, "__getitem__") is hasattr(made, "__getitem__")
    assert bool(watched)
    assert not [one for one in threading.enumerate() if one.name == "stoker-watch"]


def test_a_generator_is_given_out_once() -> None:
    watched = watch(generated(4))
    assert next(watched) == 0
    assert next(watched) == 1
    assert list(watched) == [2, 3]
    assert list(watched) == []
    with pytest.raises(StopIteration):
        next(watched)
    assert not hasattr(watched, "__len__")
    assert watched.gi_frame is None
    assert watched.report().figures["batches"] == 4


def test_an_error_of_a_generator_is_its_own() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise LookupError("out of data")

    got = []
    with pytest.raises(LookupError, match="^out of data$"):
        for one in watch(failing()):
            got.append(one)
    assert got == [1]


def test_a_loader_that_is_entered_stays_watched() -> None:
    sized = Sized([1, 2])
    with watch(sized) as watched:
        assert sized.opened
        assert list(watched) == [1, 2]
        assert watched.report().figures["batches"] == 2
    assert not sized.opened
    assert len(watched) == 2


def test_its_own_names_do_not_hide_the_loaders() -> None:
    sized = Sized([1])
    watched = watch(sized)
    watched.batches = [1, 2, 3]
    assert sized.batches == [1, 2, 3]
    assert vars(watched) is vars(sized)
    assert "report" in dir(watched)
    assert repr(watched) == f"stoker.watch({sized!r})"


@pytest.mark.parametrize("given", [3, None, object(), Sized])
def test_what_cannot_be_iterated(given: Any) -> None:
    with pytest.raises(UsageError, match="takes a loader that can be iterated, not"):
        watch(given)


def test_before_the_first_batch_there_is_nothing_to_say() -> None:
    report = watch([1]).report()
    assert report.headline == "undetermined: no batch was taken from the watched loader yet"
    assert report.findings == ()
    assert str(report)


def test_a_loop_in_another_thread() -> None:
    watched = watch(list(range(50)))
    got: list[int] = []
    thread = threading.Thread(target=lambda: got.extend(watched))
    thread.start()
    thread.join()
    assert got == list(range(50))
    assert watched.report().figures["batches"] == 50
