"""What the loop that consumes a loader did."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
import torch
from PIL import Image

from stoker.watching import loops
from stoker.watching.loops import Loop, Recent


def look(batch: Any) -> tuple[list[int], list[int], int]:
    loop = Loop()
    loop.look_at(batch)
    return loop.batch_sizes, loop.pixels, loop.lists


@pytest.mark.parametrize(
    ("batch", "size", "pixels"),
    [
        (torch.zeros(8, 3, 32, 48), 8, 32 * 48),
        (torch.zeros(8, 32, 48, 3), 8, 32 * 48),
        ([torch.zeros(8, 3, 32, 48), torch.zeros(8)], 8, 32 * 48),
        ({"label": torch.zeros(6), "image": torch.zeros(6, 1, 20, 20)}, 6, 400),
        ((numpy.zeros((4, 5)), "name"), 4, None),
        (torch.zeros(8, 100), 8, None),
        ("text", None, None),
        (None, None, None),
        ({"pictures": [Image.new("RGB", (7, 9))]}, None, 63),
    ],
)
def test_size_and_pixels(batch: Any, size: int | None, pixels: int | None) -> None:
    sizes, found, lists = look(batch)
    assert sizes == ([] if size is None else [size])
    assert found == ([] if pixels is None else [pixels])
    assert lists == 0


def test_a_list_of_samples_is_told_from_a_list_of_fields() -> None:
    sample = (torch.zeros(3, 8, 8), 1)
    assert look([sample, sample])[2] == 1
    assert look([{"image": torch.zeros(3)}, {"image": torch.zeros(3)}])[2] == 1
    assert look([torch.zeros(2, 3), torch.zeros(2)])[2] == 0
    assert look([sample])[2] == 0


def test_recent_durations_and_the_sum_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "_KEPT", 3)
    recent = Recent()
    for value in range(1, 6):
        recent.add(value)
    assert (recent.count, recent.total) == (5, 15)
    assert sorted(recent.values) == [3, 4, 5]


def test_of_very_many_epochs_the_first_are_summed() -> None:
    loop = Loop()
    for number in range(3000):
        epoch = loop.new_epoch(number)
        epoch.batches, epoch.wait_ns = 2, 5
    assert loop.batches == 6000
    assert len(loop.epochs) <= 1025
    assert sum(epoch.wait_ns for epoch in loop.epochs) == 15000
