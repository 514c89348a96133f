"""Samples of all kinds of values, and how to compare them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

DTYPES = ["?", "u1", "<i2", ">i4", "<i8", "<f2", "<f4", "<f8", "<c8", "<U3", "S2", "<M8[s]"]
TORCH = [torch.uint8, torch.bool, torch.int64, torch.float16, torch.bfloat16, torch.float32]

_shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
_arrays = st.sampled_from(DTYPES).flatmap(lambda d: hnp.arrays(np.dtype(d), _shapes))
_tensors = st.builds(
    lambda array, dtype: torch.from_numpy(array).to(dtype),
    hnp.arrays(np.int64, _shapes, elements=st.integers(0, 100)),
    st.sampled_from(TORCH),
)
_plain = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=70)
    | _arrays
    | _tensors
    | st.builds(np.float32, st.floats(-9, 9))
)
_values = st.recursive(
    _plain,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.integers(0, 9), inner, max_size=3)
    ),
    max_leaves=6,
)
samples = st.dictionaries(st.text(max_size=5), _values, max_size=4)


def same(one: Any, other: Any) -> bool:
    """Whether two values are of one type and equal, bit for bit."""
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        alike = (one.dtype, one.shape) == (other.dtype, other.shape)
        return alike and (not one.numel() or _bytes(one) == _bytes(other))
    if isinstance(one, (np.ndarray, np.generic)):
        return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[k], other[k]) for k in one)
    return repr(one) == repr(other)  # a NaN too


def _bytes(tensor: torch.Tensor) -> list[int]:
    flat: list[int] = tensor.contiguous().reshape(-1).view(torch.uint8).tolist()
    return flat
