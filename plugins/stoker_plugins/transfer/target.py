"""Where batches go: device strings, and whether pinning serves them."""

from __future__ import annotations

from collections.abc import Iterator

import torch


def accelerator() -> torch.device | None:
    """Return this machine's accelerator, or None where there is none."""
    if not torch.accelerator.is_available():
        return None
    return torch.accelerator.current_accelerator()


def resolve(device: str) -> torch.device:
    """Return the torch device that a string names; "auto" is an accelerator, else the CPU."""
    if device == "auto":
        return accelerator() or torch.device("cpu")
    return torch.device(device)


def pinning_helps(device: str) -> bool:
    """Return whether copies to a device read page-locked memory."""
    present = accelerator()
    return present is not None and resolve(device).type == present.type


def device_faults(device: str) -> Iterator[str]:
    """Yield what is wrong with a device string, for `Stage.check`."""
    present = accelerator()
    here = "cpu" if present is None else f"{present.type}, cpu"
    try:
        kind = resolve(device).type
    except RuntimeError:
        yield f"device={device!r} is no torch device; allowed is auto, or one of: {here}"
        return
    # "meta" holds no data, and is everywhere.
    if kind not in ("cpu", "meta") and (present is None or kind != present.type):
        yield f"device={device!r} is not on this machine; allowed is auto, or one of: {here}"
