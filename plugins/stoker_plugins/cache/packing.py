"""Samples as bytes, without pickle: a JSON header that tells what lies where, then the data."""

from __future__ import annotations

import ast
import json
from typing import Any

import numpy as np
import torch

from stoker.sample import Address, Sample
from stoker_plugins.arrays import as_tensor
from stoker_plugins.cache.copies import is_array, is_plain, is_tensor, refusal

# Data begins at multiples of this, so that arrays can be looked at where they lie.
ALIGNMENT = 64


def pack(address: Address, sample: Sample) -> list[Any]:
    """Return a sample as buffers to be written one after another.

    Raises:
        TypeError: it holds something that cannot be told in bytes, or so does its address.
    """
    key = repr(address)
    try:
        same = ast.literal_eval(key) == address
    except (ValueError, SyntaxError):
        same = False
    if not same:
        raise TypeError(
            f"a sample at address {key}, a {type(address).__name__}, cannot be kept on disk; "
            "addresses of numbers, text and tuples of these can"
        )
    packer = _Packer()
    tree = [[name, packer.told(value, name)] for name, value in sample.items()]
    header = json.dumps([key, tree], separators=(",", ":")).encode("ascii")
    return [padded(header), *packer.data]


def unpack(record: bytes) -> tuple[Address, Sample]:
    """Return address and sample of a record; the arrays are read-only views of it."""
    end = record.index(b"\0")
    key, tree = json.loads(record[:end])
    unpacker = _Unpacker(record, end + 1 + -(end + 1) % ALIGNMENT)
    return ast.literal_eval(key), {name: unpacker.made(told) for name, told in tree}


def address_of(head: bytes) -> Address:
    """Return the address of a record by its beginning, which has to hold all of the address."""
    key, _ = json.JSONDecoder().raw_decode(head.decode("ascii", "replace"), 1)
    address: Address = ast.literal_eval(key)
    return address


def padded(data: bytes) -> bytes:
    """Return data with a zero byte and more behind it, up to a multiple of the alignment."""
    return data + b"\0" * (1 + -(len(data) + 1) % ALIGNMENT)


class _Packer:
    """Tells values as JSON, their data put aside."""

    def __init__(self) -> None:
        self.data: list[Any] = []
        self._at = 0

    def told(self, value: Any, where: str) -> Any:
        """Return a value as JSON: plain ones as they are, others as {kind: facts}."""
        kind = type(value)
        if value is None or kind in (str, bool, int, float):
            return value
        if kind is complex:
            return {"complex": [value.real, value.imag]}
        if kind is bytes:
            return {"bytes": [self._put(value), len(value)]}
        if kind is list or kind is tuple:
            return {kind.__name__: [self.told(item, where) for item in value]}
        if kind is dict:
            return {
                "dict": [[self.told(k, where), self.told(item, where)] for k, item in value.items()]
            }
        if is_plain(value) or is_array(value):
            # A dtype of fields, or of another package, has no name that tells it.
            if np.dtype(value.dtype.str) == value.dtype:
                return self._array(np.asarray(value), isinstance(value, np.generic))
        elif is_tensor(value):
            return self._tensor(value)
        raise refusal(value, where)

    def _array(self, array: np.ndarray[Any, Any], scalar: bool) -> Any:
        shape = list(array.shape)
        flat = np.ascontiguousarray(array).reshape(-1)
        at = self._put(flat.view(np.uint8).data if flat.nbytes else b"")
        return {"array": [at, array.dtype.str, shape, scalar]}

    def _tensor(self, tensor: torch.Tensor) -> Any:
        flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
        at = self._put(flat.view(torch.uint8).numpy().data if len(flat) else b"")
        return {"tensor": [at, str(tensor.dtype).removeprefix("torch."), list(tensor.shape)]}

    def _put(self, data: Any) -> int:
        """Put data aside; return where it lies."""
        at, size = self._at, len(data)
        self.data.append(data)
        if size % ALIGNMENT:
            self.data.append(b"\0" * (-size % ALIGNMENT))
        self._at += size + -size % ALIGNMENT
        return at


class _Unpacker:
    """Makes values of what was told."""

    def __init__(self, record: bytes, start: int) -> None:
        self._record, self._start = record, start

    def made(self, told: Any) -> Any:
        """Return the value that was told."""
        if type(told) is not dict:
            return told
        [(kind, facts)] = told.items()
        if kind == "list":
            return [self.made(item) for item in facts]
        if kind == "tuple":
            return tuple(self.made(item) for item in facts)
        if kind == "dict":
            return {self.made(key): self.made(item) for key, item in facts}
        if kind == "complex":
            return complex(*facts)
        at = self._start + facts[0]
        if kind == "bytes":
            return self._record[at : at + facts[1]]
        if kind == "array":
            _, dtype, shape, scalar = facts
            array = self._view(at, np.dtype(dtype), shape)
            return array[()] if scalar else array
        _, name, shape = facts
        dtype = getattr(torch, name)
        if 0 in shape:
            return torch.empty(shape, dtype=dtype)
        count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        flat = as_tensor(self._view(at, np.dtype(np.uint8), [count])).clone()
        return flat.view(dtype).reshape(shape)

    def _view(self, at: int, dtype: np.dtype[Any], shape: list[int]) -> np.ndarray[Any, Any]:
        count = int(np.prod(shape, dtype=np.int64))
        if count == 0:
            return np.empty(shape, dtype)
        return np.frombuffer(self._record, dtype, count, at).reshape(shape)
