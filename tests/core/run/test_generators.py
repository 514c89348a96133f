"""Random generators go on from where they stood."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from stoker.errors import CheckpointError
from stoker.run.checkpoints import read, write
from stoker.run.generators import generators_state, restore_generators

CPU = torch.device("cpu")


def draws() -> list[float]:
    return [
        random.random(), random.gauss(0, 1), float(np.random.rand()), float(np.random.randn()),
        float(torch.rand(())),
    ]  # fmt: skip


def test_all_generators_go_on(tmp_path: object) -> None:
    from pathlib import Path

    assert isinstance(tmp_path, Path)
    random.gauss(0, 1)  # one of a pair: the other is kept for the next call
    np.random.randn()
    folder = write(
        tmp_path, 1, {"g": generators_state(CPU)}, {"identity": {}, "epoch": 0, "epochs": 1}
    )
    first = draws()
    assert draws() != first
    restore_generators(read(folder).state["g"], CPU)
    assert draws() == first


@pytest.mark.parametrize("part", ["python", "numpy", "torch"])
def test_S11_a_missing_generator_is_an_error(part: str) -> None:
    state = generators_state(CPU)
    del state[part]
    with pytest.raises(CheckpointError, match="random generators cannot go on"):
        restore_generators(state, CPU)
