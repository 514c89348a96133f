"""From samples to columns: which fields a batch has, and who is who in messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stoker.sample import KEY, URL, Sample, fields_of


def label(samples: Sequence[Sample], index: int) -> str:
    """Return how messages name a sample of a batch: by key, or by its place."""
    key = samples[index].get(KEY)
    return f"sample #{index} (it has no key)" if key is None else repr(key)


def columns(samples: Sequence[Sample]) -> dict[str, list[Any]]:
    """Return the samples' values by field, in order.

    Raises:
        ValueError: a field that only some of the samples have.
    """
    first = samples[0]
    for sample in samples:
        if sample.keys() != first.keys():
            _require_equal_fields(samples)
            break
    return {field: [sample[field] for sample in samples] for field in fields_of(first)}


def _require_equal_fields(samples: Sequence[Sample]) -> None:
    everywhere = dict.fromkeys(field for sample in samples for field in fields_of(sample))
    for field in everywhere:
        lacking = [i for i, sample in enumerate(samples) if field not in sample]
        if not lacking:
            continue
        having = next(i for i, sample in enumerate(samples) if field in sample)
        raise ValueError(
            f"field {field!r} is in {label(samples, having)} but missing in "
            f"{several(samples, lacking)}; a batch needs it in all or none: "
            "fill it in or leave it out with augment.Apply(function)"
        )


def several(samples: Sequence[Sample], indices: Sequence[int]) -> str:
    """Return the labels of some samples, the first three by name."""
    named = ", ".join(label(samples, index) for index in indices[:3])
    return named if len(indices) <= 3 else f"{named} and {len(indices) - 3} more"


def identity(samples: Sequence[Sample]) -> Mapping[str, list[Any]]:
    """Return the samples' keys and origins as lists, where any sample has them."""
    return {
        name: [sample.get(name) for sample in samples]
        for name in (KEY, URL)
        if any(name in sample for sample in samples)
    }
