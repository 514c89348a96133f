"""Pickles what crosses between processes, with the bytes of arrays and tensors left out.

Their bytes are given as buffers (pickle protocol 5), so that they are copied once.
Arrays that are no dense block of memory are made one here; those that are one with
their axes in another order (such as an image as (C, H, W)) keep that order.
"""

from __future__ import annotations

import copyreg
import io
import pickle
import sys
from collections import ChainMap
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# Smaller buffers stay among the rest: a view of its own costs more than a copy.
SMALL_BYTES = 1 << 10


def dumps(thing: Any) -> tuple[memoryview, list[memoryview]]:
    """Return the pickle of something, and the buffers that belong to it.

    Raises:
        Exception: whatever pickling raises for what cannot be pickled.
    """
    buffers: list[memoryview] = []

    def stays(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < SMALL_BYTES:
            return True
        buffers.append(raw)
        return False

    stream = io.BytesIO()
    pickler = pickle.Pickler(stream, 5, buffer_callback=stays)
    pickler.dispatch_table = _reducers("numpy" in sys.modules, "torch" in sys.modules)
    pickler.dump(thing)
    return stream.getbuffer(), buffers


@cache
def _reducers(has_numpy: bool, has_torch: bool) -> Any:
    found: dict[type, Callable[[Any], Any]] = {}
    if has_numpy:
        import numpy

        found[numpy.ndarray] = _reduce_array
    if has_torch:
        import torch

        found[torch.Tensor] = _reduce_tensor
    return ChainMap(found, copyreg.dispatch_table)


def _reduce_array(array: Any) -> Any:
    import numpy

    if array.dtype.hasobject or array.flags.c_contiguous:
        return array.__reduce_ex__(5)
    order = _by_stride(array.strides)
    dense = numpy.ascontiguousarray(array.transpose(order))
    return _transposed, (dense, _inverse(order))


def _transposed(array: Any, order: Sequence[int]) -> Any:
    return array.transpose(order)


def _reduce_tensor(tensor: torch.Tensor) -> Any:
    import torch

    plain = (
        tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and not (tensor.requires_grad or tensor.is_quantized or tensor.is_neg() or tensor.is_conj())
        and not vars(tensor)
    )
    if not plain:
        plainly: Any = tensor
        return plainly.__reduce_ex__(5)
    order = _by_stride(tensor.stride())
    dense = tensor.permute(order).contiguous()
    # NumPy has no name for some types (bfloat16), but every type is bytes.
    raw: Any = dense.reshape(-1).view(torch.uint8).numpy()
    made = (pickle.PickleBuffer(raw), tensor.dtype, tuple(dense.shape), _inverse(order))
    return _tensor, made


def _tensor(
    buffer: Any, dtype: torch.dtype, shape: Sequence[int], order: Sequence[int]
) -> torch.Tensor:
    import torch

    if not memoryview(buffer).nbytes:
        return torch.empty(shape, dtype=dtype).permute(tuple(order))
    return torch.frombuffer(buffer, dtype=dtype).reshape(shape).permute(tuple(order))


def _by_stride(strides: Sequence[int]) -> list[int]:
    """Return the axes from the widest stride to the narrowest: as they lie in memory."""
    return sorted(range(len(strides)), key=lambda axis: -abs(strides[axis]))


def _inverse(order: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(order)), key=order.__getitem__))
