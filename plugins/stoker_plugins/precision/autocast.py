"""Autocast that cannot be off without anybody noticing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from stoker.errors import PrecisionError
from stoker.policy import PrecisionSession
from stoker.sample import leaves

PRODUCTS = (
    nn.Linear,
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.ConvTranspose1d,
    nn.ConvTranspose2d,
    nn.ConvTranspose3d,
    nn.MultiheadAttention,
)
"""Modules whose output has the compute dtype on every device that has autocast."""

# A first pass may run no such module (a warm-up, a part of the model); then the next is watched.
_WATCHED_PASSES = 3


class AutocastSession(PrecisionSession):
    """A low precision at work on one model.

    Args:
        name: the policy's, for messages.
        dtype: what products are computed in.
        model: the model that is watched.
        device: where it runs.
        probe_every: updates between checks; 0: at the start only.

    Raises:
        PrecisionError: autocast does not take effect on this device.
    """

    def __init__(
        self,
        name: str,
        dtype: torch.dtype,
        model: nn.Module,
        device: torch.device,
        probe_every: int,
    ) -> None:
        super().__init__(device)
        reason = unavailable(device.type)
        if reason:
            raise PrecisionError(f"{name} cannot take effect: {reason}")
        self._name, self._dtype, self._model = name, dtype, model
        self._probe_every = probe_every
        self._updates = 0
        self._watched_passes = _WATCHED_PASSES
        self._weight_cache = _cache_keeps_gradients(device, dtype)
        self._facts: dict[str, Any] = {"compute_verified": False}
        self._probe()

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context that forward passes run in; checked ones watch the model, too."""
        return self._watched() if self._watched_passes else self._cast()

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        """Update the parameters, and every so many updates have the next pass checked."""
        updated = super().step(optimizer)
        self._updates += 1
        if self._probe_every and self._updates % self._probe_every == 0:
            self._watched_passes = _WATCHED_PASSES
            self._probe()
        return updated

    def facts(self) -> dict[str, Any]:
        """Return the record, as of the last check.

        `compute_dtype` is what a product gives under this autocast; `compute_verified`: the
        model's own products were seen to be in it; `other_dtypes`: those that were not, by name.
        """
        return dict(self._facts)

    def state_dict(self) -> dict[str, Any]:
        """Return the updates so far, which tell when the next check is due."""
        return {"updates": self._updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on counting; the next pass is checked as any first one is."""
        self._updates = int(state["updates"])

    def _cast(self) -> torch.autocast:
        return torch.autocast(self.device.type, dtype=self._dtype, cache_enabled=self._weight_cache)

    def _probe(self) -> None:
        with self._cast(), torch.no_grad():
            ones = torch.ones(2, 2, device=self.device)
            found = (ones @ ones).dtype
        if found != self._dtype:
            raise PrecisionError(
                f"{self._name} is not in effect on {self.device}: a product under autocast came "
                f"out as {_short(found)}; use precision='fp32', or find what turns autocast off"
            )
        self._facts["compute_dtype"] = _short(found)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        with _Watch(self._model) as watch, self._cast():
            yield
        self._watched_passes -= 1
        if watch.seen:
            self._judge(watch.seen)

    def _judge(self, seen: dict[str, torch.dtype]) -> None:
        others = {name: _short(dtype) for name, dtype in seen.items() if dtype != self._dtype}
        if len(others) == len(seen):
            names = ", ".join(f"{name} ({dtype})" for name, dtype in list(others.items())[:5])
            raise PrecisionError(
                f"{self._name} is not in effect: none of the model's {len(seen)} products ran in "
                f"{_short(self._dtype)}: {names}{', ...' if len(others) > 5 else ''}; the model "
                "turns autocast off inside (torch.autocast(..., enabled=False)) or computes in "
                "double; take that out, or use precision='fp32'"
            )
        self._watched_passes = 0
        self._facts["compute_verified"] = True
        self._facts.pop("other_dtypes", None)
        if others:
            self._facts["other_dtypes"] = others


class _Watch:
    """Notes, while entered, the output dtype of the model's products by module name."""

    def __init__(self, model: nn.Module) -> None:
        self.seen: dict[str, torch.dtype] = {}
        self._products = {
            name or "the model itself": module
            for name, module in model.named_modules()
            if isinstance(module, PRODUCTS)
        }
        self._hooks: list[Any] = []

    def __enter__(self) -> _Watch:
        for name, module in self._products.items():
            label = f"{name}: {type(module).__name__}"
            self._hooks.append(module.register_forward_hook(partial(self._note, label)))
        return self

    def __exit__(self, *error: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def _note(self, label: str, module: nn.Module, inputs: Any, output: Any) -> None:
        for leaf in leaves(output):
            if isinstance(leaf, torch.Tensor):
                self.seen[label] = leaf.dtype
                return


def unavailable(device: str) -> str | None:
    """Return why autocast cannot take effect on a torch device type, or None where it can."""
    try:
        kind = torch.device(device).type
    except RuntimeError:
        return f"torch knows no device {device!r}"
    if not torch.amp.is_autocast_available(kind):
        return f"torch has no autocast for device {kind!r}"
    here = torch.accelerator.current_accelerator()
    if kind != "cpu" and (
        here is None or here.type != kind or not torch.accelerator.is_available()
    ):
        return f"torch finds no device {kind!r} here, where autocast stays off without an error"
    return None


def _cache_keeps_gradients(device: torch.device, dtype: torch.dtype) -> bool:
    """Return whether a weight that was cast under no_grad still gets its gradient afterwards.

    Autocast keeps cast weights; where it also keeps those cast without a graph, a pass under
    no_grad would cut later passes off their weights, so the cache has to stay off.
    """
    with torch.enable_grad(), torch.autocast(device.type, dtype=dtype, cache_enabled=True):
        weight = torch.ones(2, 2, device=device, requires_grad=True)
        ones = torch.ones(2, 2, device=device)
        with torch.no_grad():
            ones @ weight
        return (ones @ weight).requires_grad


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
