"""Batches as trees: how many samples one holds, and cutting it into micro-batches.

Mappings, tuples and dataclasses hold fields; a tensor or array holds one sample an
index of its first dimension, a list one an entry. Scalars and text belong to the whole batch.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

from stoker.errors import RunError
from stoker.sample import KEY, Batch


def batch_length(batch: Batch) -> int:
    """Return the samples in a batch: its keys, else its first tensor or list counts.

    A batch of an unknown type that shows neither counts as one.
    """
    if isinstance(batch, Mapping) and isinstance(batch.get(KEY), list | tuple):
        return len(batch[KEY])
    return next(_lengths(batch), 1)


def split(batch: Batch, size: int | None) -> Iterator[Batch]:
    """Yield a batch in pieces of `size` samples, the last one shorter; None leaves it whole.

    Tensors are cut as views. What holds no samples (numbers, text) is in every piece.

    Raises:
        RunError: a tensor, list or object that cannot be cut along with the rest.
    """
    length = batch_length(batch)
    if size is None or length <= size:
        yield batch
        return
    for start in range(0, length, size):
        cut = _Cut(start, min(start + size, length), length)
        yield cut(batch, "batch")


def _is_array(value: Any) -> bool:
    # By shape and not by type: tensors, arrays and tensor-like containers all slice alike.
    return hasattr(value, "shape") and hasattr(value, "ndim")


def _is_record(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _record_fields(value: Any) -> dict[str, Any]:
    return {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}


def _lengths(value: Any) -> Iterator[int]:
    if _is_array(value):
        if value.ndim:
            yield int(value.shape[0])
    elif isinstance(value, list):
        yield len(value)
    elif isinstance(value, tuple):
        for item in value:
            yield from _lengths(item)
    elif isinstance(value, Mapping) or _is_record(value):
        fields = value if isinstance(value, Mapping) else _record_fields(value)
        for item in fields.values():
            yield from _lengths(item)


@dataclasses.dataclass(frozen=True)
class _Cut:
    """Samples `start` to `stop` of a batch of `length`."""

    start: int
    stop: int
    length: int

    def __call__(self, value: Any, place: str) -> Any:
        if _is_array(value):
            return self._slice(value, int(value.shape[0]), place) if value.ndim else value
        if isinstance(value, list):
            return self._slice(value, len(value), place)
        if isinstance(value, tuple):
            parts = [self(item, f"{place}[{index}]") for index, item in enumerate(value)]
            make: Callable[..., Any] = type(value)
            return make(*parts) if hasattr(value, "_fields") else make(parts)
        if isinstance(value, Mapping):
            return self._mapping(value, place)
        if _is_record(value):
            fields = _record_fields(value).items()
            return dataclasses.replace(
                value, **{name: self(item, f"{place}.{name}") for name, item in fields}
            )
        return self._whole(value, place)

    def _slice(self, value: Any, length: int, place: str) -> Any:
        if length != self.length:
            raise RunError(
                f"the batch of {self.length} samples cannot be split into micro-batches: "
                f"{place} has {length} entries; tensors and lists must hold one a sample "
                "(tuples hold fields), or leave memory.micro_batch out"
            )
        return value[self.start : self.stop]

    def _mapping(self, value: Mapping[Any, Any], place: str) -> Any:
        parts = {key: self(item, f"{place}[{key!r}]") for key, item in value.items()}
        if type(value) is dict or not isinstance(value, MutableMapping):
            return parts
        same = copy.copy(value)  # keeps what the type carries besides its items
        same.update(parts)
        return same

    def _whole(self, value: Any, place: str) -> Any:
        held = vars(value).values() if hasattr(value, "__dict__") else ()
        if any(next(_lengths(item), None) is not None for item in held):
            raise RunError(
                f"the batch cannot be split into micro-batches: {place} is a "
                f"{type(value).__name__}, whose tensors Stoker cannot cut; make it a dict or "
                "dataclass, or leave memory.micro_batch out"
            )
        return value
