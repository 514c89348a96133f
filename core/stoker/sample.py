"""What flows: samples as dicts, batches as trees, and the size of either.

A sample follows WebDataset's convention: a dict with `__key__`, optionally
`__url__` (the shard or file) and `__offset__`, and fields. A batch is any tree
of tensors, lists and objects; `collate` stages make dicts of tensors.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, NamedTuple

Sample = dict[str, Any]
Batch = Any
Address = Hashable
"""What a source reads by: usually an int, an index into what it knows."""

Shard = Hashable
"""What a stream source streams by: usually a path."""

KEY, URL, OFFSET = "__key__", "__url__", "__offset__"

PADDING = "__padding__"
"""In a batch that only stands there so that all ranks get as many: its number of samples."""

# What a Python object costs where its own size is not known cheaply.
_OBJECT_NBYTES = 64


def plain(address: Any) -> Address:
    """Return an address as a source is given it: of NumPy's integers, Python's."""
    plain: Address = address.item() if hasattr(address, "item") else address
    return plain


class Origin(NamedTuple):
    """Where a sample came from, for error messages and the quarantine."""

    key: str | None = None
    shard: str | None = None
    offset: int | None = None


def origin_of(sample: Any) -> Origin:
    """Return the origin that a sample itself carries."""
    if not isinstance(sample, Mapping):
        return Origin()
    key, shard = sample.get(KEY), sample.get(URL)
    return Origin(
        None if key is None else str(key),
        None if shard is None else str(shard),
        sample.get(OFFSET),
    )


def fields_of(sample: Mapping[str, Any]) -> list[str]:
    """Return the names of a sample's fields, metadata left out."""
    return [name for name in sample if not name.startswith("__")]


def missing_field(field: str, sample: Mapping[str, Any]) -> KeyError:
    """Return an error for a field that a sample lacks, listing those it has."""
    seen = ", ".join(sorted(fields_of(sample))) or "none"
    return KeyError(f"no field {field!r}; the sample has: {seen}")


def nbytes(value: Any) -> int:
    """Return the bytes that a sample or batch holds: buffers exactly, objects by a constant.

    Arrays and tensors count by `nbytes`, bytes and strings by length, containers
    by what they hold; any other object counts 64 bytes.
    """
    if type(value) is dict:  # the common case, once for every stage and chunk
        total = _OBJECT_NBYTES
        for item in value.values():
            kind = type(item)
            if kind is bytes or kind is str:
                total += len(item)
            elif kind is int or kind is float:
                total += _OBJECT_NBYTES
            else:
                total += nbytes(item)
        return total
    if isinstance(value, dict):
        return sum(map(nbytes, value.values())) + _OBJECT_NBYTES
    if isinstance(value, (bytes, bytearray, str)):
        return len(value)
    try:
        size = getattr(value, "nbytes", None)
    except Exception:  # a sparse tensor does not tell
        size = None
    if isinstance(size, int):
        return size
    if isinstance(value, (list, tuple)):
        return sum(map(nbytes, value)) + _OBJECT_NBYTES
    return _OBJECT_NBYTES


def leaves(tree: Any) -> Iterator[Any]:
    """Yield the leaves of a tree of dicts, lists and tuples, in order."""
    if isinstance(tree, Mapping):
        for value in tree.values():
            yield from leaves(value)
    elif isinstance(tree, list | tuple):
        for value in tree:
            yield from leaves(value)
    else:
        yield tree
