"""Arrays and tensors over the same memory, for stages of every family."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


class _Writable:
    """An array's memory, announced as writable through NumPy's array interface."""

    __slots__ = ("__array_interface__", "array")

    def __init__(self, array: NDArray[Any]) -> None:
        facts = dict(array.__array_interface__)
        facts["data"] = (facts["data"][0], False)
        self.__array_interface__ = facts
        self.array = array  # keeps the memory alive


def as_tensor(array: NDArray[Any]) -> torch.Tensor:
    """Return a tensor over the array's memory. Read it, never write to it.

    Read-only arrays (such as Pillow's) share their memory too, without torch's
    warning. What torch cannot view (negative strides, foreign byte order) is copied.
    """
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    elif any(stride < 0 or stride % array.itemsize for stride in array.strides):
        array = np.ascontiguousarray(array)
    if not array.flags.writeable:
        array = np.asarray(_Writable(array))
    return torch.from_numpy(array)


@cache
def tensor_dtype(dtype: np.dtype[Any]) -> torch.dtype | None:
    """Return torch's counterpart of a NumPy dtype, or None where there is none."""
    if dtype.kind not in "biufc":  # objects, text, dates, records
        return None
    try:
        return as_tensor(np.empty(0, dtype)).dtype
    except TypeError:  # long doubles
        return None
