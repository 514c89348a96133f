"""Finding the DataLoaders behind an iterable: itself, or what it holds."""

from __future__ import annotations

import sys
import types
from typing import Any, Final

_DEPTH: Final = 3
_ENTRIES: Final = 16


def loaders_of(iterable: object) -> list[Any]:
    """Return the torch DataLoaders that feed an iterable, as far as they can be seen.

    The iterable itself, or one in its attributes or in the variables of its generator.
    """
    data = sys.modules.get("torch.utils.data")
    if data is None:
        return []
    if issubclass(type(iterable), data.DataLoader):
        return [iterable]
    found: dict[int, Any] = {}
    _visit(iterable, data.DataLoader, found, set(), 0)
    return list(found.values())


def _visit(thing: object, kind: type, found: dict[int, Any], seen: set[int], depth: int) -> None:
    if depth > _DEPTH or id(thing) in seen:
        return
    seen.add(id(thing))
    cls = type(thing)
    if issubclass(cls, kind):
        found[id(thing)] = thing
        return
    if cls is types.GeneratorType:
        held = thing.gi_frame.f_locals if thing.gi_frame is not None else {}  # type: ignore[attr-defined]
    elif cls in (list, tuple):
        held = dict(enumerate(thing[:_ENTRIES]))  # type: ignore[index]
    elif cls is dict:
        held = thing
    elif cls.__module__.split(".")[0] in ("builtins", "numpy", "torch"):
        return
    else:
        try:
            held = object.__getattribute__(thing, "__dict__")
        except AttributeError:  # it has slots only
            return
    for value in list(held.values())[: 4 * _ENTRIES]:
        _visit(value, kind, found, seen, depth + 1)
