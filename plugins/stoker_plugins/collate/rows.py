"""One field of a batch, as a tensor with a row for each sample where it can be one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from stoker.errors import describe_given
from stoker.sample import Sample
from stoker.stages import Alloc
from stoker_plugins.arrays import as_tensor, tensor_dtype
from stoker_plugins.collate.columns import label, several

_SCALARS = {
    frozenset({"bool"}): torch.bool,
    frozenset({"int"}): torch.int64,
    frozenset({"float"}): torch.float32,
    frozenset({"int", "float"}): torch.float32,  # JSON writes 1.0 as 1
}


def stacked(field: str, values: Sequence[Any], samples: Sequence[Sample], alloc: Alloc) -> Any:
    """Return the values of a field as `collate.Stack` documents: a tensor, or the list.

    Raises:
        ValueError: arrays that differ in shape.
        TypeError: values that differ in type or dtype.
    """
    kinds = frozenset(map(_kind, values))
    if kinds == {"array"}:
        return _rows(field, values, samples, alloc)
    if kinds in _SCALARS:
        return _scalars(field, values, _SCALARS[kinds], alloc)
    if kinds == {"object"}:
        return values
    raise _mixed(field, values, samples)


def arrays(field: str, values: Sequence[Any], samples: Sequence[Sample]) -> list[torch.Tensor]:
    """Return the values of a field as tensors of one dtype and as many dimensions.

    Lists of numbers count as arrays: token ids come so from JSON.

    Raises:
        TypeError: a value that is no array, or of another dtype.
        ValueError: of another number of dimensions.
    """
    numbers = [index for index, value in enumerate(values) if isinstance(value, (list, tuple))]
    of_lists = _of_lists([values[index] for index in numbers])
    made = dict(zip(numbers, of_lists, strict=True)) if of_lists is not None else {}
    rows: list[torch.Tensor] = []
    for index, value in enumerate(values):
        row = made.get(index) if index in made else _as_row(value)
        if row is None:
            raise TypeError(
                f"field {field!r} holds {describe_given(value)} in {label(samples, index)}; "
                "allowed is an array, a tensor or a list of numbers (nested ones of equal length)"
            )
        rows.append(row)
    ranks = [i for i, row in enumerate(rows) if row.ndim != rows[0].ndim]
    if ranks:
        raise ValueError(
            f"field {field!r} has shape {tuple(rows[0].shape)} in {label(samples, 0)} but "
            f"{tuple(rows[ranks[0]].shape)} in {several(samples, ranks)}; as many dimensions "
            "are needed in all: decode.Image() makes (height, width, channels) of every picture"
        )
    dtypes = [i for i, row in enumerate(rows) if row.dtype != rows[0].dtype]
    if dtypes:
        raise _other_dtype(field, rows, samples, dtypes)
    return rows


def _of_lists(values: Sequence[Any]) -> list[torch.Tensor] | None:
    """Return lists of numbers as tensors of one dtype: JSON writes 1.0 as 1, and [] as neither.

    None where one of them is no list of numbers.
    """
    try:
        made = [np.asarray(value) for value in values]
    except (ValueError, OverflowError):  # of unequal length, or beyond 64 bits
        return None
    kinds = {array.dtype.kind for array in made if array.size}
    if kinds - set("bif") or (kinds > {"b"}):
        return None
    kind = torch.bool if kinds == {"b"} else torch.float32 if "f" in kinds else torch.int64
    return [torch.from_numpy(np.ascontiguousarray(array)).to(kind) for array in made]


def _as_row(value: Any) -> torch.Tensor | None:
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, np.ndarray) and tensor_dtype(value.dtype) is not None:
        return as_tensor(value)
    return None


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
            f"augment.CenterCrop(size)), pad them with collate.Pad(batch_size, {field!r}), put "
            f"them end to end with collate.Concat(batch_size, {field!r}), or keep them apart with "
            "collate.List(batch_size)"
        )
    dtypes = [i for i, row in enumerate(rows) if row.dtype != first.dtype]
    return _other_dtype(field, rows, samples, dtypes)


def _other_dtype(
    field: str, rows: Sequence[torch.Tensor], samples: Sequence[Sample], others: Sequence[int]
) -> TypeError:
    return TypeError(
        f"field {field!r} has dtype {rows[0].dtype} in {label(samples, 0)} but "
        f"{rows[others[0]].dtype} in {several(samples, others)}; make them equal with "
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
