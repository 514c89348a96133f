"""Precision policies: which numbers the step computes in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stoker.lazy import lazy
from stoker.plugins import PolicyEntry, hookimpl

if TYPE_CHECKING:
    from stoker_plugins.precision.bf16 import Bf16
    from stoker_plugins.precision.fp32 import Fp32

__all__ = ["Bf16", "Fp32"]
__getattr__ = lazy(__name__, {"Bf16": "bf16", "Fp32": "fp32"})


@hookimpl
def stoker_precisions() -> Iterator[PolicyEntry]:
    """Bring the built-in precisions."""
    yield PolicyEntry("precision.fp32", f"{__name__}.fp32:Fp32", "plain single precision")
    yield PolicyEntry("precision.bf16", f"{__name__}.bf16:Bf16", "bfloat16 autocast")
