"""Finding the DataLoaders behind an iterable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stoker.watching import watch
from stoker.watching.inner import loaders_of

from .loaders import Rows, Stacked, loader


def test_itself_an_attribute_a_list_a_generator() -> None:
    one, other = loader(Rows(6), batch_size=2), loader(Rows(6), batch_size=3)

    def generated(given: Any) -> Iterator[Any]:
        yield from given

    assert loaders_of(one) == [one]
    assert loaders_of(Stacked(one, 2)) == [one]
    assert loaders_of([one, {"val": other}]) == [one, other]
    running = generated(other)
    assert loaders_of(running) == [other]
    list(running)
    assert loaders_of(running) == []
    assert loaders_of([1, "text", None]) == []


def test_the_stages_of_a_loader_behind_a_generator() -> None:
    inner = loader(Rows(12), batch_size=3)

    def generated() -> Iterator[Any]:
        for batch in held[0]:
            yield batch["index"]

    held = [inner]
    watched = watch(Around(inner))
    assert len(list(watched)) == 4
    report = watched.report()
    assert report.figures["kind"] == "iterable"
    assert {row.name for row in report.stages} >= {"getitem", "collate", "step"}
    assert len(list(watch(generated()))) == 4


class Around:
    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __iter__(self) -> Iterator[Any]:
        for batch in self.inner:
            yield batch["index"]
