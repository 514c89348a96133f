"""Batches of values of several sizes, padded."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from stoker.errors import describe_given
from stoker.parameters import param
from stoker.sample import Batch, Sample
from stoker.stages import Alloc, Surroundings
from stoker_plugins.collate.columns import label, several
from stoker_plugins.collate.count import ByCount
from stoker_plugins.collate.fields import assembled, fields_faults, names_of

LENGTH = "_length"
"""Ends the name of the field that holds the sizes before padding."""


@dataclass(frozen=True)
class Pad(ByCount):
    """Make a dict of tensors, some fields padded to the longest of the batch.

    A padded field becomes (B, *longest, *rest): its first `dims` dimensions are filled up at
    their ends, the rest has to be equal. `<field>_length` tells the sizes before: (B,) for one
    dimension, (B, dims) for more. All other fields are stacked as by `collate.Stack`.
    """

    name: ClassVar[str] = "collate.pad"
    example: ClassVar[str] = 'collate.Pad(32, "tokens", multiple_of=8)'

    fields: str | tuple[str, ...] = param((), "field that is padded, or several")
    dims: int = param(
        1, "leading dimensions that differ: 1 for sequences, 2 for pictures", minimum=1
    )
    multiple_of: int = param(1, "round these sizes up to a multiple", minimum=1)
    value: float | dict[str, float] = param(0.0, "what is filled in; a dict tells it by field")

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield what is wrong with fields and values."""
        yield from super().check(around)
        yield from fields_faults(self.fields)
        yield from value_faults(self.value, names_of(self.fields))

    def assemble(self, samples: Sequence[Sample], alloc: Alloc) -> Batch:
        """Return the batch, its tensors in memory from `alloc`.

        Raises:
            KeyError: a field to be padded is missing.
            ValueError: fields whose sizes differ in what is not padded.
            TypeError: a field that differs in type or dtype.
        """
        padding = Padding(self.fields, self.dims, self.multiple_of, self.value)
        return padding.batch(samples, alloc)


@dataclass(frozen=True)
class Padding:
    """How fields are padded; see `Pad`."""

    fields: str | tuple[str, ...]
    dims: int = 1
    multiple_of: int = 1
    value: float | Mapping[str, float] = 0.0

    def batch(self, samples: Sequence[Sample], alloc: Alloc) -> dict[str, Any]:
        """Return a batch of samples, with these fields padded and the others stacked."""

        def made(field: str, rows: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
            return self._padded(field, rows, samples, alloc), self._lengths(rows, alloc)

        return assembled(samples, names_of(self.fields), LENGTH, made, alloc)

    def _padded(
        self, field: str, rows: list[torch.Tensor], samples: Sequence[Sample], alloc: Alloc
    ) -> torch.Tensor:
        first, dims = rows[0], self.dims
        if first.ndim < dims:
            raise ValueError(
                f"field {field!r} has shape {tuple(first.shape)} in {label(samples, 0)}, fewer "
                f"than the dims={dims} that are to be padded"
            )
        others = [i for i, row in enumerate(rows) if row.shape[dims:] != first.shape[dims:]]
        if others:
            raise ValueError(
                f"field {field!r} has shape {tuple(first.shape)} in {label(samples, 0)} but "
                f"{tuple(rows[others[0]].shape)} in {several(samples, others)}: only the first "
                f"{dims} may differ (dims={dims}); make the rest equal or raise dims"
            )
        unit = self.multiple_of
        longest = [-(-max(row.shape[d] for row in rows) // unit) * unit for d in range(dims)]
        value = self.value.get(field, 0.0) if isinstance(self.value, Mapping) else self.value
        fill = _held(value, first.dtype)
        if fill is None:
            raise ValueError(f"value={value:g} of field {field!r} is none that {first.dtype} holds")
        out = alloc((len(rows), *longest, *first.shape[dims:]), first.dtype)
        out.fill_(fill)
        for slot, row in zip(out.unbind(0), rows, strict=True):
            slot[tuple(slice(side) for side in row.shape[:dims])].copy_(row)
        return out

    def _lengths(self, rows: Sequence[torch.Tensor], alloc: Alloc) -> torch.Tensor:
        sizes = torch.tensor([row.shape[: self.dims] for row in rows], dtype=torch.int64)
        made = sizes[:, 0] if self.dims == 1 else sizes
        out = alloc(tuple(made.shape), torch.int64)
        out.copy_(made)
        return out


def _held(value: float, dtype: torch.dtype) -> float | None:
    """Return a value as a dtype has it, None where it has none so near."""
    if dtype.is_floating_point or dtype.is_complex:
        finite = math.isfinite(value)
        return value if not finite or abs(value) <= torch.finfo(dtype).max else None
    if dtype == torch.bool:
        return value if value in (0, 1) else None
    limits = torch.iinfo(dtype)
    # NaN and infinities are no whole numbers either.
    whole = math.isfinite(value) and value == int(value)
    return int(value) if whole and limits.min <= value <= limits.max else None


def value_faults(value: float | Mapping[str, float], names: Sequence[str]) -> Iterable[str]:
    """Yield fields that values are given for and that are not padded, for `Stage.check`."""
    if isinstance(value, Mapping):
        for field in sorted(set(value) - set(names)):
            yield f"value={describe_given(value)}: {field!r} is none of the padded fields"
