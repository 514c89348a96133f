"""Batches of any shape: every tensor changed once, everything else left as it is."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Set
from typing import Any

import torch

from stoker.sample import leaves

_ATOMS = (str, bytes, int, float, bool, complex, type(None), type)


def map_tree(tree: Any, method: str, call: Callable[[Any], Any], *, strict: bool = True) -> Any:
    """Return a tree in which `call` has changed every tensor, and every object with `method`.

    Dicts, lists, tuples, named tuples and dataclasses (frozen ones too) keep their
    types; what needs no change is handed on as it is, so an unchanged tree is the
    same object. A tensor that occurs twice is changed once.

    Args:
        tree: a batch.
        method: name of the method, such as "to", by which objects change themselves.
        call: changes one tensor, or one object that has the method.
        strict: refuse objects that hold tensors out of reach.

    Raises:
        TypeError: names the object that holds tensors which nothing can reach.
    """
    return _Walk(method, call, strict).change(tree, "batch")


class _Walk:
    """One pass over one tree."""

    def __init__(self, method: str, call: Callable[[Any], Any], strict: bool) -> None:
        self.method, self.call, self.strict = method, call, strict
        # The original is kept beside the result, so that its id stays taken.
        self.done: dict[int, tuple[Any, Any]] = {}

    def change(self, value: Any, path: str) -> Any:
        """Return a value changed; `path` is where it stands, for messages."""
        if isinstance(value, _ATOMS):
            return value
        if isinstance(value, torch.Tensor) or callable(getattr(value, self.method, None)):
            return self._once(value)
        if isinstance(value, Mapping):
            return self._mapping(value, path)
        if isinstance(value, (list, tuple)):
            return self._sequence(value, path)
        if dataclasses.is_dataclass(value):
            return self._dataclass(value, path)
        if self.strict:
            self._require_no_tensor(value, path)
        return value

    def _once(self, value: Any) -> Any:
        if id(value) not in self.done:
            self.done[id(value)] = (value, self.call(value))
        return self.done[id(value)][1]

    def _mapping(self, value: Mapping[Any, Any], path: str) -> Any:
        changed = {key: self.change(item, f"{path}[{key!r}]") for key, item in value.items()}
        if all(changed[key] is item for key, item in value.items()):
            return value
        if type(value) is dict:
            return changed
        if isinstance(value, dict):  # keeps what subclasses carry, such as a default factory
            clone = copy.copy(value)
            clone.update(changed)
            return clone
        make: Callable[[Any], Any] = type(value)
        return make(changed)

    def _sequence(self, value: list[Any] | tuple[Any, ...], path: str) -> Any:
        changed = [self.change(item, f"{path}[{i}]") for i, item in enumerate(value)]
        if all(new is old for new, old in zip(changed, value, strict=True)):
            return value
        if isinstance(value, list):
            clone = copy.copy(value)
            clone[:] = changed
            return clone
        named = getattr(type(value), "_make", None)
        make: Callable[[Any], Any] = named or type(value)
        return make(changed)

    def _dataclass(self, value: Any, path: str) -> Any:
        old = {
            field.name: getattr(value, field.name)
            for field in dataclasses.fields(value)
            if hasattr(value, field.name)
        }
        changed = {name: self.change(item, f"{path}.{name}") for name, item in old.items()}
        if all(changed[name] is item for name, item in old.items()):
            return value
        # Not by its constructor, which may compute, refuse or not take some of the fields.
        clone = object.__new__(type(value))
        for name, item in {**getattr(value, "__dict__", {}), **changed}.items():
            object.__setattr__(clone, name, item)
        return clone

    def _require_no_tensor(self, value: Any, path: str) -> None:
        held: Any = list(value) if isinstance(value, Set) else _attributes(value)
        if any(isinstance(leaf, torch.Tensor) for leaf in leaves(held)):
            raise TypeError(
                f"{path} is a {type(value).__module__}.{type(value).__qualname__} that holds a "
                f"tensor; give the class a method {self.method}(), make it a dataclass, or hand "
                "on a dict"
            )


def _attributes(value: Any) -> list[Any]:
    """Return what an object's attributes hold, in its `__dict__` or in slots."""
    held = []
    for cls in type(value).__mro__:
        slots = vars(cls).get("__slots__", ())
        names = [slots] if isinstance(slots, str) else slots
        held += [getattr(value, name) for name in names if hasattr(value, name)]
    return [*held, *getattr(value, "__dict__", {}).values()]
