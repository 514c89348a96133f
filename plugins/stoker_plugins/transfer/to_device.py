"""Copies of batches to the device."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch

from stoker.parameters import param
from stoker.rng import Rng
from stoker.sample import Batch
from stoker.stages import BatchMap, Resource, Surroundings, Worker
from stoker_plugins.transfer.target import device_faults, resolve
from stoker_plugins.transfer.trees import map_tree


@dataclass(frozen=True)
class ToDevice(BatchMap):
    """Copy every tensor of a batch to the device; on the CPU batches pass untouched."""

    name: ClassVar[str] = "transfer.to_device"
    kind: ClassVar[str] = "copy"
    resource: ClassVar[Resource] = "device"
    example: ClassVar[str] = 'transfer.ToDevice("cuda")'

    device: str = param("auto", "torch device to copy to; auto: an accelerator, else the CPU")
    non_blocking: bool = param(True, "let the host go on while pinned memory is copied")

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield what is wrong with the device."""
        return device_faults(self.device)

    @contextmanager
    def open(self, worker: Worker) -> Iterator[Callable[[Batch, Rng], Batch]]:
        """Look the device up once; yield what copies to it."""
        yield partial(self._copied, resolve(self.device))

    def apply(self, batch: Batch, rng: Rng) -> Batch:
        """Return the batch on the device.

        Raises:
            TypeError: an object that holds tensors and has no method `to`.
        """
        return self._copied(resolve(self.device), batch, rng)

    def _copied(self, device: torch.device, batch: Batch, rng: Rng) -> Batch:
        if device.type == "cpu":
            return batch
        return map_tree(batch, "to", partial(self._move, device))

    def _move(self, device: torch.device, value: Any) -> Any:
        # The copy is queued on the current stream, where the step's kernels queue up behind
        # it. The source may be dropped at once: torch's caching host allocator notes which
        # streams copy from a pinned block, and hands it out again only after they have passed.
        if isinstance(value, torch.Tensor) or _takes_non_blocking(value):
            return value.to(device, non_blocking=self.non_blocking)
        return value.to(device)


def _takes_non_blocking(value: Any) -> bool:
    try:
        known = inspect.signature(value.to).parameters
    except (TypeError, ValueError):  # some compiled methods tell no signature
        return False
    return "non_blocking" in known
