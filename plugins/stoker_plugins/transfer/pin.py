"""Page-locked memory for batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch

from stoker.parameters import param
from stoker.rng import Rng
from stoker.sample import Batch
from stoker.stages import BatchMap, Surroundings, Worker
from stoker_plugins.transfer.target import accelerator, device_faults, pinning_helps
from stoker_plugins.transfer.trees import map_tree


@dataclass(frozen=True)
class Pin(BatchMap):
    """Move a batch into page-locked memory, from which the device copies without the CPU.

    Where there is no accelerator, or none is the target, batches pass untouched.
    """

    name: ClassVar[str] = "transfer.pin"
    kind: ClassVar[str] = "pin"
    example: ClassVar[str] = "transfer.Pin(enabled=False)"

    enabled: bool | Literal["auto"] = param(
        "auto", "auto: pin where an accelerator is the target; True: insist; False: never"
    )
    device: str = param("auto", "torch device that the batches are for; auto: an accelerator")

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield what is wrong with the device, or that nothing could be pinned."""
        faults = list(device_faults(self.device))
        yield from faults
        if self.enabled is True and not faults and not pinning_helps(self.device):
            why = "this machine has no accelerator"
            if accelerator() is not None:
                why = f"the target is {self.device}"
            yield f"enabled=True, but {why}, so nothing can be pinned; use enabled='auto'"

    @contextmanager
    def open(self, worker: Worker) -> Iterator[Callable[[Batch, Rng], Batch]]:
        """Ask once whether there is anything to do; yield what pins, or what does nothing."""
        yield _pinned if self._wanted() else _untouched

    def apply(self, batch: Batch, rng: Rng) -> Batch:
        """Return the batch with its tensors pinned; the batch itself where that is no use."""
        return _pinned(batch, rng) if self._wanted() else batch

    def _wanted(self) -> bool:
        return self.enabled is not False and pinning_helps(self.device)


def _untouched(batch: Batch, rng: Rng) -> Batch:
    return batch


def _pinned(batch: Batch, rng: Rng) -> Batch:
    # Not strict: an object that only knows `to` can still be copied, from pageable memory.
    return map_tree(batch, "pin_memory", _pin, strict=False)


def _pin(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and (value.device.type != "cpu" or value.is_pinned()):
        return value
    return value.pin_memory()
