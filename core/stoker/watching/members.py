"""Finding the transforms of a dataset: members of any Compose, and what is named so.

A Compose is any object with a list or tuple of callables called `transforms`, as in
torchvision, albumentations and MONAI, or an `nn.Sequential`. Nothing is called and
no property is read, only what objects store.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

_WORDS: Final = ("transform", "augment", "preprocess", "process", "tokeniz", "pipeline")
_DEPTH: Final = 5
_OBJECTS: Final = 400
_ENTRIES: Final = 32
_PLAIN: Final = (
    str, bytes, bytearray, int, float, complex, bool, type(None), type, range, slice,
    types.ModuleType, types.CodeType, types.GeneratorType,
)  # fmt: skip
_BY_NAME: Final = ("torch", "numpy", "PIL", "pandas", "pyarrow", "multiprocessing", "threading")


@dataclass(frozen=True)
class Place:
    """Where a transform is stored: what must be replaced to meter one that cannot be patched."""

    value: Callable[..., Any]
    label: str
    owner: Any
    """A list or a `__dict__`; for a tuple, the `__dict__` it is stored in."""
    key: Any
    within: int | None = None
    """The index inside a tuple that is stored in `owner`."""


def find(root: object) -> list[Place]:
    """Return all places of transforms that an object holds, in the order they are found."""
    walk = _Walk()
    walk.visit(root, "", 0, False)
    return walk.places


class _Walk:
    def __init__(self) -> None:
        self.places: list[Place] = []
        self.seen: dict[int, object] = {}

    def visit(self, thing: object, name: str, depth: int, transform: bool) -> None:
        """Look into a thing; `transform` says that it is one, or is part of one."""
        if depth > _DEPTH or len(self.seen) > _OBJECTS or id(thing) in self.seen:
            return
        if not _worth_a_look(thing, transform):
            return
        self.seen[id(thing)] = thing
        for attribute, value in _entries(thing):
            self.visit(value, f"{name}[{attribute!r}]", depth + 1, transform)
        self._members(thing, name, depth)
        stored = _stored(thing)
        for attribute, value in list(stored.items()):
            named = any(word in attribute.lower() for word in _WORDS)
            if named and callable(value) and not _is_a(value, _PLAIN) and not members_of(value):
                label = f"{attribute.lstrip('_')} {name_of(value)}"
                self.places.append(Place(value, label, stored, attribute))
            self.visit(value, attribute, depth + 1, transform or named)
        for attribute, value in _referred(thing):
            self.visit(value, attribute, depth + 1, transform)

    def _members(self, thing: object, name: str, depth: int) -> None:
        """Note the members of a Compose."""
        prefix = name.lstrip("_") or type(thing).__name__
        stored = _stored(thing)
        attribute = "_modules" if _is_sequential(thing) else "transforms"
        held = stored.get(attribute)
        for index, (key, member) in enumerate(members_of(thing)):
            label = f"{prefix}[{index}] {name_of(member)}"
            if isinstance(held, tuple):
                self.places.append(Place(member, label, stored, attribute, key))
            else:
                self.places.append(Place(member, label, held, key))
            self.visit(member, f"{prefix}[{index}]", depth + 1, True)


def members_of(thing: object) -> list[tuple[Any, Callable[..., Any]]]:
    """Return keys and members of a Compose, in their order; nothing if it is none."""
    held: Any = _stored(thing).get("_modules" if _is_sequential(thing) else "transforms")
    if type(held) in (list, tuple):
        pairs: list[tuple[Any, Any]] = list(enumerate(held))
    elif type(held) is dict:
        pairs = list(held.items())
    else:
        return []
    return pairs if len(pairs) <= _ENTRIES and all(callable(one) for _, one in pairs) else []


def name_of(thing: object) -> str:
    """Return what people call a callable."""
    while isinstance(thing, functools.partial):
        thing = thing.func
    name = getattr(thing, "__name__", None) if _is_function(thing) else None
    return name if isinstance(name, str) else type(thing).__name__


def _is_function(thing: object) -> bool:
    kinds = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial)
    return isinstance(thing, kinds)


def _is_a(thing: object, classes: type | tuple[type, ...]) -> bool:
    # Not isinstance: that asks the thing, and a lazy one would wake up.
    return issubclass(type(thing), classes)


def _is_sequential(thing: object) -> bool:
    nn = sys.modules.get("torch.nn")
    return nn is not None and _is_a(thing, nn.Sequential)


def _worth_a_look(thing: object, transform: bool) -> bool:
    """Whether transforms may be inside: not in data, and in modules only if they are one."""
    if _is_a(thing, _PLAIN):
        return False
    nn = sys.modules.get("torch.nn")
    if nn is not None and _is_a(thing, nn.Module):
        return transform  # others are models
    module = type(thing).__module__
    return module.startswith("torch.utils.data") or module.split(".")[0] not in _BY_NAME


def _entries(thing: Any) -> list[tuple[Any, object]]:
    """Return keys and values of a small plain container."""
    if type(thing) in (list, tuple) and len(thing) <= _ENTRIES:
        return list(enumerate(thing))
    if type(thing) is dict and len(thing) <= _ENTRIES:
        return list(thing.items())
    return []


def _stored(thing: object) -> dict[str, Any]:
    if _is_function(thing):
        return {}
    try:
        stored = object.__getattribute__(thing, "__dict__")
    except AttributeError:  # it has slots only
        return {}
    return stored if type(stored) is dict else {}


def _referred(thing: object) -> Iterator[tuple[str, object]]:
    """Yield what a callable or the methods of an object refer to: closures and globals."""
    if isinstance(thing, functools.partial):
        yield "partial", thing.func
        for value in (*thing.args, *thing.keywords.values()):
            yield "partial", value
        return
    if isinstance(thing, types.MethodType):
        yield "self", thing.__self__
        return
    functions: list[types.FunctionType] = []
    if isinstance(thing, types.FunctionType):
        functions.append(thing)
    else:
        for method in ("__getitem__", "__iter__", "__getitems__", "__call__", "forward"):
            function = getattr(type(thing), method, None)
            if isinstance(function, types.FunctionType):
                functions.append(function)
    for function in functions:
        if function.__module__ and function.__module__.split(".")[0] in _BY_NAME:
            continue
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            try:
                yield name, cell.cell_contents
            except ValueError:  # the cell is still empty
                continue
        for name in function.__code__.co_names:
            value = function.__globals__.get(name)
            if value is not None and members_of(value):
                yield name, value
