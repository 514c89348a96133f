"""Annotated types: resolved, and shown as people write them."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

import pytest

from stoker.typed import adapter_of, signature_of, type_name

if TYPE_CHECKING:
    from nowhere import Unknown  # type: ignore[import-not-found]


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (int, "int"),
        (None, "None"),
        (type(None), "None"),
        (Any, "Any"),
        (Path, "Path"),
        (int | None, "int | None"),
        (Optional[int], "int | None"),  # noqa: UP045
        (Literal["a", 1], "'a' | 1"),
        (int | Literal["auto"], "int | 'auto'"),
        (typing.Union[int, "Unknown"], "int | Unknown"),
        (tuple[int, ...], "tuple[int, ...]"),
        (tuple[float, float] | int, "tuple[float, float] | int"),
        (dict[str, list[int]], "dict[str, list[int]]"),
        (Sequence[str], "Sequence[str]"),
        (Callable[[int, str], bool], "Callable[[int, str], bool]"),
        (Callable[..., int], "Callable[..., int]"),
        (Annotated[int, "meta"], "int"),
        ("Unknown", "Unknown"),
        (typing.ForwardRef("Unknown"), "Unknown"),
    ],
    ids=str,
)
def test_a_type_is_shown_as_people_write_it(annotation: Any, text: str) -> None:
    assert type_name(annotation) == text


def known_and_unknown(a: int, b: Unknown, *, c: str | None = None) -> Unknown:
    return b


class Maker:
    def __call__(self, n: int) -> int:
        return n


def test_a_signature_resolves_what_it_can() -> None:
    kinds = {p.name: p.annotation for p in signature_of(known_and_unknown).parameters.values()}
    assert kinds == {"a": int, "b": "Unknown", "c": str | None}
    partial = functools.partial(known_and_unknown, 1)
    assert signature_of(partial).parameters["c"].annotation == str | None
    assert signature_of(Maker()).parameters["n"].annotation is int
    assert signature_of(lambda x: x).parameters["x"].annotation is inspect.Parameter.empty


def test_a_signature_sees_through_a_decorator() -> None:
    @functools.wraps(known_and_unknown)
    def wrapped(*args: Any, **given: Any) -> Any:
        return known_and_unknown(*args, **given)

    assert signature_of(wrapped).parameters["a"].annotation is int


class Hostile:
    """Breaks whoever asks it for a schema."""

    @classmethod
    def __get_pydantic_core_schema__(cls, *args: Any) -> Any:
        raise RuntimeError("no schema here")


def test_types_that_pydantic_does_not_understand_are_not_judged() -> None:
    assert adapter_of(list["Unknown"]) is None
    assert adapter_of(Hostile) is None
    assert adapter_of(list[int]).validate_python([1]) == [1]
    thing = Maker()
    assert adapter_of(Maker).validate_python(thing) is thing
