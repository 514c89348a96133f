from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from stoker.testing import assemble, check_stage
from stoker_plugins import collate


def samples(*values: Any, **more: Any) -> list[dict[str, Any]]:
    return [{"__key__": f"k{i}", "points": value, **more} for i, value in enumerate(values)]


def test_contract() -> None:
    check_stage(collate.Concat(4, "points"))


@given(st.lists(st.integers(0, 6), min_size=1, max_size=6))
def test_each_part_comes_back_by_its_offsets(lengths: list[int]) -> None:
    clouds = [np.random.default_rng(n).random((n, 3)).astype(np.float32) for n in lengths]
    batch = assemble(collate.Concat(8, "points"), samples(*clouds, label=2))
    offsets = batch["points_offsets"].tolist()
    assert offsets == [0, *np.cumsum(lengths).tolist()]
    assert batch["points"].shape == (sum(lengths), 3)
    assert batch["label"].tolist() == [2] * len(lengths)
    for index, cloud in enumerate(clouds):
        part = batch["points"][offsets[index] : offsets[index + 1]]
        assert part.numpy().tobytes() == cloud.tobytes()


def test_what_does_not_fit_end_to_end_is_named() -> None:
    with pytest.raises(ValueError, match=r"\(2, 3\) in 'k0' but \(2, 4\) in 'k1'.*only the first"):
        assemble(collate.Concat(4, "points"), samples(np.zeros((2, 3)), np.zeros((2, 4))))
    with pytest.raises(ValueError, match="a single number"):
        assemble(collate.Concat(4, "points"), samples(torch.tensor(1)))
