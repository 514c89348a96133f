"""Annotated types: resolved, judged by pydantic, and shown as people write them."""

from __future__ import annotations

import functools
import inspect
import numbers
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from stoker.sample import leaves


def resolved(annotation: Any, scope: Mapping[str, Any], inner: Mapping[str, Any]) -> Any:
    """Return what an annotation written as text stands for, or the text where nobody knows."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, dict(scope), dict(inner))
    except Exception:  # an annotation may be for type checkers only, and say anything
        return annotation


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return a function's signature, its annotations resolved where anybody knows them.

    Raises:
        TypeError, ValueError: it has none, as some built-in functions.
    """
    signature = inspect.signature(function)
    inner = inspect.unwrap(function)
    while isinstance(inner, functools.partial):
        inner = inner.func
    module = sys.modules.get(getattr(inner, "__module__", None) or "")
    scope = vars(module) if module is not None else {}
    return signature.replace(
        parameters=[
            parameter.replace(annotation=resolved(parameter.annotation, scope, {}))
            for parameter in signature.parameters.values()
        ]
    )


def adapter_of(annotation: Any) -> Any:
    """Return pydantic's validator of a type, or None where it does not understand it."""
    from pydantic import ConfigDict, TypeAdapter

    # Dataclasses and models bring a configuration of their own and refuse another.
    for config in (ConfigDict(arbitrary_types_allowed=True), None):
        try:
            adapter: Any = TypeAdapter(annotation, config=config)
            adapter.rebuild(raise_errors=True)
        except Exception:  # annotations are other people's, and so are the hooks in them
            continue
        return adapter
    return None


def used_as_it_is(given: Any, made: Any) -> bool:
    """Tell whether a value serves unconverted, since a stage gets it as it was given.

    Tuples and lists serve alike, and so do numbers of NumPy and an int for a float.

    Args:
        given: the value.
        made: what its type makes of it.
    """
    if given is made:
        return True
    before, after = list(leaves(given)), list(leaves(made))
    return len(before) == len(after) and all(map(_same_kind, before, after))


def _same_kind(given: Any, made: Any) -> bool:
    if given is made:
        return True
    if isinstance(given, bool) or isinstance(made, bool):
        return isinstance(given, bool) and isinstance(made, bool)
    if type(made) is int:
        return isinstance(given, numbers.Integral)
    if type(made) is float:
        return isinstance(given, numbers.Real)
    return isinstance(given, type(made))


def no_flag_as_number(given: Any, made: Any) -> bool:
    """Tell whether no `true` of what was given became a 1."""
    before, after = list(leaves(given)), list(leaves(made))
    return len(before) != len(after) or not any(
        isinstance(was, bool) and not isinstance(now, bool)
        for was, now in zip(before, after, strict=True)
    )


def type_name(annotation: Any) -> str:
    """Return a type as people write it: `int | 'auto'`, `tuple[float, float]`."""
    if isinstance(annotation, str):
        return annotation
    if isinstance(annotation, typing.ForwardRef):
        return annotation.__forward_arg__
    if annotation is None or annotation is types.NoneType:
        return "None"
    if annotation is Ellipsis:
        return "..."
    if isinstance(annotation, list):  # what a Callable takes
        return f"[{', '.join(map(type_name, annotation))}]"
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return " | ".join(map(repr, arguments))
    if origin in (typing.Union, types.UnionType):
        return " | ".join(map(type_name, arguments))
    if origin is typing.Annotated:
        return type_name(arguments[0])
    if origin is not None:
        name = getattr(origin, "__name__", str(origin))
        return f"{name}[{', '.join(map(type_name, arguments))}]"
    return str(getattr(annotation, "__name__", annotation))
