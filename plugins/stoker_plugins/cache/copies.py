"""Copies of samples that nobody else can change, and what they take.

What can be kept is the same for all caches: plain values, arrays, tensors, and lists, tuples
and dicts of these. Of other objects nobody can tell whether a copy is one.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch

from stoker.sample import Sample

_PLAIN = {type(None), str, bytes, bool, int, float, complex}
# An array or tensor itself, beside its values.
_HEAD_NBYTES = 160


def is_plain(value: Any) -> bool:
    """Whether a value can change in no way."""
    # A NumPy record is a view into the array that it was taken from.
    return type(value) in _PLAIN or (
        isinstance(value, np.generic) and not isinstance(value, np.void)
    )


def is_array(value: Any) -> bool:
    """Whether a value is an array of numbers, text or dates, and nothing else with it."""
    return type(value) in (np.ndarray, np.memmap) and not value.dtype.hasobject


def is_tensor(value: Any) -> bool:
    """Whether a value is a dense tensor in the host's memory, of torch's own class."""
    return (
        type(value) is torch.Tensor
        and value.layout == torch.strided
        and value.device.type == "cpu"
        and not value.is_quantized
    )


def frozen(value: Any, where: str) -> Any:
    """Return a copy that nobody else can change.

    Args:
        value: of a sample.
        where: its name, for messages.

    Raises:
        TypeError: it cannot be copied for sure.
    """
    if is_plain(value):
        return value
    if is_array(value):
        # A dense copy: a view would keep all of the array that it looks into.
        copy = np.array(value, order="C")
        copy.flags.writeable = False
        return copy
    if is_tensor(value):
        return value.detach().clone(memory_format=torch.contiguous_format)
    if type(value) in (list, tuple):
        return type(value)(frozen(item, where) for item in value)
    if type(value) is dict:
        return {frozen(key, where): frozen(item, where) for key, item in value.items()}
    raise refusal(value, where)


def thawed(value: Any) -> Any:
    """Return what a receiver may have of a frozen value: containers and tensors of its own."""
    kind = type(value)
    if kind is list or kind is tuple:
        return kind(map(thawed, value))
    if kind is dict:
        return {key: thawed(item) for key, item in value.items()}
    if kind is torch.Tensor:  # has no mark that makes it read-only
        return value.clone()
    return value


def seal(sample: Sample) -> None:
    """Let a sample that goes on hold its arrays read-only.

    So a stage that changes them in place fails in the first epoch, and not in the second.
    """
    for name, value in sample.items():
        if isinstance(value, np.ndarray) and value.flags.writeable:
            view = value.view()  # the array itself may be its owner's
            view.flags.writeable = False
            sample[name] = view


def held_nbytes(value: Any) -> int:
    """Return the bytes that a frozen copy of a value takes, Python's objects with it."""
    kind = type(value)
    if kind is dict:
        items = sum(held_nbytes(key) + held_nbytes(item) for key, item in value.items())
        return items + sys.getsizeof(value)
    if kind is list or kind is tuple:
        return sum(map(held_nbytes, value)) + sys.getsizeof(value)
    if isinstance(value, np.ndarray):
        return value.nbytes + _HEAD_NBYTES
    if isinstance(value, torch.Tensor):
        return value.numel() * value.itemsize + _HEAD_NBYTES
    return sys.getsizeof(value)


def refusal(value: Any, where: str) -> TypeError:
    """Return the error for a value that cannot be kept.

    Args:
        value: of a sample.
        where: its name.
    """
    kind = type(value).__name__
    if isinstance(value, np.ndarray):
        kind = f"{'an array' if kind == 'ndarray' else kind} of {value.dtype}"
    elif isinstance(value, torch.Tensor):
        kind = f"{kind} ({value.layout}, on {value.device})"
    return TypeError(
        f"field {where!r} holds {kind}, which a cache cannot keep; it keeps numbers, text, bytes, "
        "arrays, dense tensors on the CPU, and lists, tuples and dicts of these: put the cache "
        "before the stage that makes it, or let that stage make one of these"
    )
