"""bfloat16 autocast, verified to be in effect."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch

from stoker.parameters import param
from stoker.policy import Precision
from stoker_plugins.precision.autocast import AutocastSession, unavailable


@dataclass(frozen=True)
class Bf16(Precision):
    """Computes matrix products and convolutions in bfloat16; weights stay in single precision.

    It never fails silently: an autocast that is off, or that the model turns off, is an error.

    Args:
        probe_every: updates between checks that bfloat16 is in effect; 0: at the start only.
    """

    name: ClassVar[str] = "precision.bf16"
    example: ClassVar[str] = "precision.Bf16()"

    probe_every: int = param(
        100, "updates between checks that it is in effect; 0: at the start only", minimum=0
    )

    def check(self, device: str) -> Iterable[str]:
        """Yield why it would not take effect on a device."""
        reason = unavailable(device)
        if reason:
            yield f"{reason}; use device='cpu' or precision='fp32'"

    def open(self, model: torch.nn.Module, device: torch.device) -> AutocastSession:
        """Make the session.

        Raises:
            PrecisionError: bfloat16 autocast does not take effect on this device.
        """
        return AutocastSession(self.name, torch.bfloat16, model, device, self.probe_every)
