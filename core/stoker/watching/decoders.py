"""Metering the decoding of pictures, and counting pixels.

Pillow decodes when the pixels are first needed, so its time hides in whatever asks for them.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

from stoker.watching import table as t
from stoker.watching.meter import DECODE, LOCAL, Meter

_lock = threading.Lock()
_installed: dict[str, _Patch] = {}
_users = 0

# By module, functions that return the decoded picture, with the axes of its height and width.
_FUNCTIONS: Final = {
    "cv2": (("imread", "imdecode"), (0, 1)),
    "torchvision.io": (("read_image", "decode_image", "decode_jpeg", "decode_png"), (-2, -1)),
    "simplejpeg": (("decode_jpeg",), (0, 1)),
}


class _Patch:
    def __init__(self, owner: Any, name: str, ours: Callable[..., Any]) -> None:
        self.owner, self.name, self.ours = owner, name, ours
        self.before = owner.__dict__[name]
        setattr(owner, name, ours)

    def undo(self) -> None:
        if self.owner.__dict__.get(self.name) is self.ours:
            setattr(self.owner, self.name, self.before)


def install() -> None:
    """Meter the decoders that are imported by now; called again it adds those that came since."""
    with _lock:
        pillow = sys.modules.get("PIL.ImageFile")
        base = getattr(pillow, "ImageFile", None)
        if "PIL" not in _installed and base is not None and "load" in base.__dict__:
            _installed["PIL"] = _Patch(base, "load", _pillow(base.load))
        for module, (names, axes) in _FUNCTIONS.items():
            owner = sys.modules.get(module)
            for name in names if owner is not None else ():
                key = f"{module}.{name}"
                function = owner.__dict__.get(name)
                if key not in _installed and callable(function):
                    _installed[key] = _Patch(owner, name, _returning(function, axes))


def acquire() -> None:
    """Install for one more user."""
    global _users
    with _lock:
        _users += 1
    install()


def release() -> None:
    """Put everything back after the last user."""
    global _users
    with _lock:
        _users -= 1
        if _users:
            return
        for patch in _installed.values():
            patch.undo()
        _installed.clear()


def _pillow(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def load(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        meter = LOCAL.meter
        # Without tiles there is nothing left to decode; a metered decoder may call another.
        if meter is None or not meter.on or meter.current == DECODE:
            return original(self, *args, **kwargs)
        if not getattr(self, "tile", None):
            return original(self, *args, **kwargs)
        jpeg = getattr(self, "format", None) == "JPEG"
        result = meter.call(DECODE, original, (self, *args), kwargs)
        _count(meter, self.size[0] * self.size[1], jpeg)
        return result

    return load


def _returning(original: Callable[..., Any], axes: tuple[int, int]) -> Callable[..., Any]:
    @functools.wraps(original)
    def decode(*args: Any, **kwargs: Any) -> Any:
        meter = LOCAL.meter
        if meter is None or not meter.on or meter.current == DECODE:
            return original(*args, **kwargs)
        result = meter.call(DECODE, original, args, kwargs)
        shape = getattr(result, "shape", ())
        if len(shape) >= 2:
            _count(meter, int(shape[axes[0]]) * int(shape[axes[1]]), False)
        return result

    return decode


def _count(meter: Meter, pixels: int, jpeg: bool) -> None:
    meter.cells[t.DECODED] += 1
    meter.cells[t.DECODED_PIXELS] += pixels
    meter.cells[t.DECODED_JPEG] += jpeg


def _new_lock() -> None:
    """In a forked child the lock may be held by a thread that does not exist there."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_new_lock)
