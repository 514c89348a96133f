"""Batches of values put end to end: point clouds, packed text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from stoker.parameters import param
from stoker.sample import Batch, Sample
from stoker.stages import Alloc, Surroundings
from stoker_plugins.collate.columns import label, several
from stoker_plugins.collate.count import ByCount
from stoker_plugins.collate.fields import assembled, fields_faults, names_of

OFFSETS = "_offsets"
"""Ends the name of the field that tells where each sample begins."""


@dataclass(frozen=True)
class Concat(ByCount):
    """Make a dict of tensors, some fields put end to end along their first dimension.

    Such a field becomes (sum of lengths, *rest), and `<field>_offsets` (B + 1,) tells where
    each sample begins, and in its last place where all end. All other fields are stacked as by
    `collate.Stack`.
    """

    name: ClassVar[str] = "collate.concat"
    example: ClassVar[str] = 'collate.Concat(8, "points")'

    fields: str | tuple[str, ...] = param((), "field that is put end to end, or several")

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield what is wrong with the fields."""
        yield from super().check(around)
        yield from fields_faults(self.fields)

    def assemble(self, samples: Sequence[Sample], alloc: Alloc) -> Batch:
        """Return the batch, its tensors in memory from `alloc`.

        Raises:
            KeyError: a field to be put end to end is missing.
            ValueError: such fields differ in more than their length.
            TypeError: a field that differs in type or dtype.
        """

        def made(field: str, rows: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
            return _joined(field, rows, samples, alloc)

        return assembled(samples, names_of(self.fields), OFFSETS, made, alloc)


def _joined(
    field: str, rows: Sequence[torch.Tensor], samples: Sequence[Sample], alloc: Alloc
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows end to end, and where each begins."""
    first = rows[0]
    if first.ndim == 0:
        raise ValueError(
            f"field {field!r} is a single number in {label(samples, 0)}, which has no length"
        )
    others = [i for i, row in enumerate(rows) if row.shape[1:] != first.shape[1:]]
    if others:
        raise ValueError(
            f"field {field!r} has shape {tuple(first.shape)} in {label(samples, 0)} but "
            f"{tuple(rows[others[0]].shape)} in {several(samples, others)}: only the first "
            "dimension may differ"
        )
    ends = torch.tensor([0, *(len(row) for row in rows)], dtype=torch.int64).cumsum(0)
    offsets = alloc((len(rows) + 1,), torch.int64)
    offsets.copy_(ends)
    out = alloc((int(ends[-1]), *first.shape[1:]), first.dtype)
    at = 0
    for row in rows:
        out[at : at + len(row)].copy_(row)
        at += len(row)
    return out, offsets
