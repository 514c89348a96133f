"""The process-wide random generators, as a checkpoint holds them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from stoker.errors import CheckpointError, reason_of

if TYPE_CHECKING:
    import torch


def generators_state(device: torch.device) -> dict[str, Any]:
    """Return the states of Python's, NumPy's and torch's generators, and that of a device."""
    import numpy
    import torch

    version, words, gauss = random.getstate()
    name, keys, position, has_gauss, cached = numpy.random.get_state(legacy=True)
    return {
        "python": {"version": version, "words": list(words), "gauss": gauss},
        "numpy": {
            "name": str(name),
            "keys": [int(key) for key in keys],
            "position": int(position),
            "has_gauss": int(has_gauss),
            "cached": float(cached),
        },
        "torch": torch.get_rng_state(),
        "device": None if device.type == "cpu" else _module(device).get_rng_state(device),
    }


def restore_generators(state: dict[str, Any], device: torch.device) -> None:
    """Let all generators go on from where they stood.

    Raises:
        CheckpointError: a part of the state is missing or is none.
    """
    import numpy
    import torch

    try:
        python, legacy = state["python"], state["numpy"]
        random.setstate((python["version"], tuple(python["words"]), python["gauss"]))
        keys = numpy.array(legacy["keys"], numpy.uint32)
        rest = (legacy["position"], legacy["has_gauss"], legacy["cached"])
        numpy.random.set_state((legacy["name"], keys, *rest))
        torch.set_rng_state(state["torch"])
        if device.type != "cpu":
            _module(device).set_rng_state(state["device"], device)
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise CheckpointError(
            f"the checkpoint's random generators cannot go on: {reason_of(error)}"
        ) from error


def _module(device: torch.device) -> Any:
    import torch

    return torch.get_device_module(device)
