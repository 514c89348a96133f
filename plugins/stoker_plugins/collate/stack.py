"""Batches as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from stoker.errors import describe_given
from stoker.sample import Batch, Sample
from stoker.stages import Alloc
from stoker_plugins.arrays import as_tensor, tensor_dtype
from stoker_plugins.collate.columns import columns, identity, label, several
from stoker_plugins.collate.count import ByCount

_SCALARS = {
    frozenset({"bool"}): torch.bool,
    frozenset({"int"}): torch.int64,
    frozenset({"float"}): torch.float32,
    frozenset({"int", "float"}): torch.float32,  # JSON writes 1.0 as 1
}


@dataclass(frozen=True)
class Stack(ByCount):
    """Make a dict of tensors, one row a sample.

    Arrays and tensors of equal shape become (B, *shape) of their dtype, ints int64,
    floats float32, bools bool, each (B,). Text, bytes, dicts and other objects become
    lists, as do `__key__` and `__url__`.
    """

    name: ClassVar[str] = "collate.stack"
    example: ClassVar[str] = "collate.Stack(64, drop_last=True)"

    def assemble(self, samples: Sequence[Sample], alloc: Alloc) -> Batch:
        """Return the batch, its tensors in memory from `alloc`.

        Raises:
            ValueError: a field that differs in shape, or that only some samples have.
            TypeError: a field that differs in type or dtype.
        """
        batch: dict[str, Any] = dict(identity(samples))
        for field, values in columns(samples).items():
            kinds = frozenset(map(_kind, values))
            if kinds == {"array"}:
                batch[field] = _rows(field, values, samples, alloc)
            elif kinds in _SCALARS:
                batch[field] = _scalars(field, values, _SCALARS[kinds], alloc)
            elif kinds == {"object"}:
                batch[field] = values
            else:
                raise _mixed(field, values, samples)
        return batch


def _kind(value: Any) -> str:
    """Return what becomes of a value: "array", "bool", "int", "float" or "object"."""
    if isinstance(value, (np.ndarray, np.generic)):
        return "array" if tensor_dtype(value.dtype) is not None else "object"
    if isinstance(value, torch.Tensor):
        return "array"
    for kind in (bool, int, float):  # a bool is an int too
        if isinstance(value, kind):
            return kind.__name__
    return "object"


def _rows(
    field: str, values: Sequence[Any], samples: Sequence[Sample], alloc: Alloc
) -> torch.Tensor:
    """Return the values as one tensor (B, *shape)."""
    rows = [
        value.detach() if isinstance(value, torch.Tensor) else as_tensor(np.asarray(value))
        for value in values
    ]
    shape, dtype = rows[0].shape, rows[0].dtype
    if any(row.shape != shape or row.dtype != dtype for row in rows):
        raise _unequal(field, rows, samples)
    out = alloc((len(rows), *shape), dtype)
    for slot, row in zip(out.unbind(0), rows, strict=True):
        slot.copy_(row)  # by torch, since it lets go of the GIL
    return out


def _scalars(field: str, values: Sequence[Any], dtype: torch.dtype, alloc: Alloc) -> torch.Tensor:
    """Return numbers as one tensor (B,)."""
    try:
        made = torch.tensor(values, dtype=dtype)
    except (RuntimeError, OverflowError, ValueError) as error:  # by version of torch
        greatest = describe_given(max(values, key=abs))
        raise ValueError(
            f"field {field!r} has numbers beyond {dtype}, such as {greatest}; "
            "keep them as text, or make arrays of a dtype that holds them"
        ) from error
    out = alloc((len(values),), dtype)
    out.copy_(made)
    return out


def _unequal(
    field: str, rows: Sequence[torch.Tensor], samples: Sequence[Sample]
) -> ValueError | TypeError:
    """Return the error for rows of several shapes or dtypes."""
    first = rows[0]
    shapes = [i for i, row in enumerate(rows) if row.shape != first.shape]
    if shapes:
        return ValueError(
            f"field {field!r} has shape {tuple(first.shape)} in {label(samples, 0)} but "
            f"{tuple(rows[shapes[0]].shape)} in {several(samples, shapes)}; make them equal "
            "(pictures: augment.RandomResizedCrop(size), or augment.Resize(size) and "
            "augment.CenterCrop(size)), or keep them apart with collate.List(batch_size)"
        )
    dtypes = [i for i, row in enumerate(rows) if row.dtype != first.dtype]
    return TypeError(
        f"field {field!r} has dtype {first.dtype} in {label(samples, 0)} but "
        f"{rows[dtypes[0]].dtype} in {several(samples, dtypes)}; make them equal with "
        f"augment.Apply(function, field={field!r}), or keep them apart with "
        "collate.List(batch_size)"
    )


def _mixed(field: str, values: Sequence[Any], samples: Sequence[Sample]) -> TypeError:
    """Return the error for values that are partly numbers or arrays, partly something else."""
    first = _kind(values[0])
    others = [i for i, value in enumerate(values) if _kind(value) != first]
    return TypeError(
        f"field {field!r} holds {type(values[0]).__name__} in {label(samples, 0)} but "
        f"{type(values[others[0]]).__name__} in {several(samples, others)}; make them equal "
        f"with augment.Apply(function, field={field!r}), or keep them apart with "
        "collate.List(batch_size)"
    )
