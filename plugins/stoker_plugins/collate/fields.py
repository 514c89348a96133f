"""Fields that are treated apart from the others, which are stacked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from stoker.errors import describe_given
from stoker.sample import Sample, missing_field
from stoker.stages import Alloc
from stoker_plugins.collate.columns import columns, identity
from stoker_plugins.collate.rows import arrays, stacked

Make = Callable[[str, list[torch.Tensor]], tuple[torch.Tensor, torch.Tensor]]
"""Makes a field's tensor of its rows, and one that tells how they lie in it."""


def assembled(
    samples: Sequence[Sample], names: Sequence[str], ending: str, make: Make, alloc: Alloc
) -> dict[str, Any]:
    """Return a batch in which some fields are made by `make`, and all others stacked.

    Args:
        samples: of the batch.
        names: fields that are made apart.
        ending: of the name of the field that tells how each of them lies.
        make: makes both.
        alloc: where tensors are made.

    Raises:
        KeyError: a named field is missing.
        ValueError: a field differs in shape, or one that would be made is there already.
        TypeError: a field differs in type or dtype.
    """
    found = columns(samples)
    _require(found, names, ending, samples)
    batch: dict[str, Any] = dict(identity(samples))
    for field, values in found.items():
        if field in names:
            batch[field], batch[field + ending] = make(field, arrays(field, values, samples))
        else:
            batch[field] = stacked(field, values, samples, alloc)
    return batch


def names_of(fields: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return one or several names as several."""
    return (fields,) if isinstance(fields, str) else fields


def fields_faults(fields: str | tuple[str, ...]) -> Iterable[str]:
    """Yield what is wrong with the names of fields, for `Stage.check`."""
    names = names_of(fields)
    if not names or not all(names):
        yield f"fields={describe_given(fields)}: name a field, or several"
    elif len(set(names)) < len(names):
        yield f"fields={describe_given(fields)}: a field is named twice"


def _require(
    found: Mapping[str, Any], names: Sequence[str], ending: str, samples: Sequence[Sample]
) -> None:
    """Refuse fields that are missing, and names that those made for them would take.

    Raises:
        KeyError: a field is missing.
        ValueError: a field made for one is there already.
    """
    for field in names:
        if field not in found:
            raise missing_field(field, samples[0])
        if field + ending in found:
            raise ValueError(
                f"field {field + ending!r}, which is made for {field!r}, is in the samples "
                "already; leave it out or rename it with augment.Apply(function)"
            )
