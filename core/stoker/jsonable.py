"""Anything as strict JSON: no NaN, which few parsers read, and no type that raises."""

from __future__ import annotations

import json
import math
import numbers
from collections.abc import Mapping
from typing import Any


def to_json(thing: Any, *, indent: int | None = None) -> str:
    """Return a thing as JSON text; what JSON has no word for becomes null or text.

    Args:
        thing: dicts, lists and scalars; NaN and infinities become null, numbers of NumPy
            and tensors of one number become plain ones, other objects their `str()`.
        indent: spaces a level, or None for one line.
    """
    return json.dumps(_plain(thing), indent=indent, allow_nan=False)


def _plain(thing: Any) -> Any:
    if thing is None or isinstance(thing, (bool, str)):
        return thing
    if isinstance(thing, numbers.Integral):
        return int(thing)
    if isinstance(thing, numbers.Real):
        number = float(thing)
        return number if math.isfinite(number) else None
    if isinstance(thing, Mapping):
        return {str(name): _plain(value) for name, value in thing.items()}
    if isinstance(thing, (list, tuple, set, frozenset)):
        return [_plain(value) for value in thing]
    if getattr(thing, "ndim", None) == 0 and hasattr(thing, "item"):
        return _plain(thing.item())
    return str(thing)
