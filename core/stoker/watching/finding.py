"""One thing that a loader wastes, and what to change about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from stoker.watching.model import Gain, Model

Name = Literal[
    "no_workers", "few_workers", "too_many_workers", "threads_per_worker",
    "no_persistent_workers", "oversized_decode", "slow_transform", "python_bound",
    "slow_samples", "low_prefetch", "collate_in_main", "slow_collate", "heavy_transport",
    "not_pinned",
]  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """A waste, by name."""

    name: Name
    headline: str
    """What to do and why, in one line."""
    advice: str
    """The exact change."""
    figures: Mapping[str, Any]
    """What it rests on, by name and unit."""
    gain: Gain | None = None
    """Predicted throughput after the change over throughput now."""
    why_no_gain: str = ""
    """Why no gain is predicted, where none is."""

    def to_dict(self) -> dict[str, Any]:
        """Return it JSON-able."""
        return {
            "name": self.name,
            "headline": self.headline,
            "advice": self.advice,
            "evidence": dict(self.figures),
            "gain": self.gain.to_dict() if self.gain else None,
            "why_no_gain": self.why_no_gain or None,
        }

    @property
    def worth(self) -> float:
        """What it is ranked by."""
        return self.gain.value if self.gain else 1.0


def predicted(model: Model, gain: Gain | None, otherwise: str = "") -> tuple[Gain | None, str]:
    """Return a gain, or why there is none."""
    return (gain, "") if gain is not None else (None, otherwise or model.why_unknown)
