"""Putting meters around transforms and taking them away again.

An instance of a Python class is metered by patching its class: lists, identities and types
stay as they are, and other instances pass through. What cannot be patched (functions,
classes written in C) is replaced where it is stored, by something that behaves the same.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any, Final

from stoker.watching.members import Place
from stoker.watching.meter import LOCAL, Meter

_lock = threading.Lock()
_patches: dict[type, _ClassPatch] = {}
_MISSING: Final = object()


class Hooks:
    """The transforms of one loader while they are metered."""

    def __init__(self, meter: Meter, places: list[Place], *, private: bool) -> None:
        """Meter transforms.

        Args:
            meter: whose slots they get.
            places: what was found.
            private: this process does nothing but load, so library classes may be patched.
        """
        self._undo: list[Callable[[], None]] = []
        self._kept: list[object] = []  # ids are theirs while they live
        self._meter = meter
        for place in places:
            known = meter.slots.get(id(place.value))
            slot = meter.add_slot(place.label) if known is None else known
            if slot is None:
                break
            meter.slots[id(place.value)] = slot
            self._kept.append(place.value)
            if type(place.value) is StandIn:
                continue  # another watch of the same transforms put it there
            if known is not None and type(place.value) in _patches:
                continue
            if not self._patched(place.value, private):
                self._replace(place, slot)

    @property
    def installed(self) -> bool:
        """Whether anything is metered by these hooks."""
        return bool(self._undo)

    def remove(self) -> None:
        """Put everything back that is still as it was left."""
        undo, self._undo = self._undo, []
        for step in reversed(undo):
            step()
        self._meter.slots.clear()

    def _patched(self, value: object, private: bool) -> bool:
        cls = type(value)
        if not private and cls.__module__.split(".")[0] == "torch":
            return False  # the model in the person's loop is made of these, too
        with _lock:
            patch = _patches.get(cls)
            if patch is None:
                try:
                    patch = _ClassPatch(cls)
                except (TypeError, AttributeError):  # a class that cannot be changed
                    return False
                _patches[cls] = patch
            patch.users += 1
        self._undo.append(functools.partial(_release, cls))
        return True

    def _replace(self, place: Place, slot: int) -> None:
        owner, key = place.owner, place.key
        held = owner[key]
        stand_in = StandIn(place.value)
        if place.within is not None:
            if type(held) is not tuple:
                return
            entries = list(held)
            entries[place.within] = stand_in
            changed: object = tuple(entries)
        elif held is place.value:
            changed = stand_in
        else:
            return
        owner[key] = changed
        self._meter.slots[id(stand_in)] = slot
        self._kept.append(stand_in)
        self._undo.append(functools.partial(_put_back, owner, key, changed, held))


def _put_back(owner: Any, key: Any, ours: object, before: object) -> None:
    try:
        present = owner[key]
    except (KeyError, IndexError):  # removed by somebody meanwhile
        return
    if present is ours:
        owner[key] = before


def _release(cls: type) -> None:
    with _lock:
        patch = _patches[cls]
        patch.users -= 1
        if not patch.users:
            del _patches[cls]
            patch.undo()


class _ClassPatch:
    """A class whose `__call__` asks the meter of its thread."""

    def __init__(self, cls: type) -> None:
        self.users = 0
        self._cls = cls
        self._own = cls.__dict__.get("__call__", _MISSING)
        original = cls.__call__
        self._ours = _metered(cls, original)
        setattr(cls, "__call__", self._ours)  # noqa: B010

    def undo(self) -> None:
        if self._cls.__dict__.get("__call__") is not self._ours:
            return
        if self._own is _MISSING:
            delattr(self._cls, "__call__")
        else:
            setattr(self._cls, "__call__", self._own)  # noqa: B010


def _metered(cls: type, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def __call__(self: Any, /, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        meter = LOCAL.meter
        if meter is None or not meter.on or type(self) is not cls:
            return original(self, *args, **kwargs)
        slot = meter.slots.get(id(self))
        if slot is None:
            return original(self, *args, **kwargs)
        return meter.call(slot, original, (self, *args), kwargs)

    return __call__


class StandIn:
    """Stands for a function where it is stored; all but a call goes to the function itself."""

    __slots__ = ("_stood_for",)

    def __init__(self, function: Callable[..., Any]) -> None:
        object.__setattr__(self, "_stood_for", function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function = _function_of(self)
        meter = LOCAL.meter
        if meter is None or not meter.on:
            return function(*args, **kwargs)
        slot = meter.slots.get(id(self))
        if slot is None:
            return function(*args, **kwargs)
        return meter.call(slot, function, args, kwargs)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(_function_of(self))

    def __getattr__(self, name: str) -> Any:
        return getattr(_function_of(self), name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(_function_of(self), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(_function_of(self), name)

    def __eq__(self, other: object) -> bool:
        mine = _function_of(self)
        return bool(mine == (_function_of(other) if type(other) is StandIn else other))

    def __hash__(self) -> int:
        return hash(_function_of(self))

    def __repr__(self) -> str:
        return repr(_function_of(self))

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _itself, (_function_of(self),)


def _function_of(stand_in: Any) -> Any:
    return object.__getattribute__(stand_in, "_stood_for")


def _itself(function: Any) -> Any:
    return function


def _new_lock() -> None:
    """In a forked child the lock may be held by a thread that does not exist there."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_new_lock)
