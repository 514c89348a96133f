"""Plain single precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from stoker.policy import Precision, PrecisionSession

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Fp32(Precision):
    """Computes in single precision, as the model was made."""

    name: ClassVar[str] = "precision.fp32"
    example: ClassVar[str] = "precision.Fp32()"

    def open(self, model: torch.nn.Module, device: torch.device) -> PrecisionSession:
        """Make a session that changes nothing."""
        return PrecisionSession(device)
