"""Watching costs at most 1 % of the CPU time, by account: what was done times what it costs."""

from __future__ import annotations

import time
from typing import Any

import torch

from stoker.watching import table as t
from stoker.watching import watch
from stoker.watching.gather import gather
from stoker.watching.meter import hook_cost_ns
from stoker.watching.sampler import SPARE_S
from stoker.watching.wrapper import watch_of

from .loaders import Burn, Compose, Rows, Scale, loader


def _spent(watched: Any, epochs: int) -> float:
    begun = time.process_time()
    for _ in range(epochs):
        for _ in watched:
            pass
    return time.process_time() - begun


def _accounted_s(watched: Any) -> float:
    work = gather(watch_of(watched)).work
    calls = sum(slot.calls for slot in work.slots.values())
    return 1.5 * calls * hook_cost_ns() / 1e9 + work[t.SAMPLER_CPU_NS] / 1e9


def test_samples_of_a_millisecond_with_five_transforms() -> None:
    transform = Compose([Scale(), Scale(), Burn(0.001), Scale(), Scale()])
    watched = watch(loader(Rows(200, transform=transform), batch_size=10))
    spent = _spent(watched, 3)
    assert _accounted_s(watched) < 0.01 * spent
    work = gather(watch_of(watched)).work
    assert 0 < work[t.METERED_BATCHES] < work[t.BATCHES]


def test_samples_of_microseconds_are_hardly_metered() -> None:
    rows = torch.utils.data.TensorDataset(torch.arange(4000.0))
    watched = watch(loader(rows, batch_size=50))
    spent = _spent(watched, 3)
    work = gather(watch_of(watched)).work
    assert work[t.BATCHES] == 240
    assert 0 < work[t.METERED_BATCHES] < 0.1 * work[t.BATCHES]
    # The very first batch is metered before anything is known of it, and each sampler's life
    # begins with something to spend.
    first_s = 1.5 * 51 * hook_cost_ns() / 1e9 + 3 * SPARE_S
    assert _accounted_s(watched) - first_s < 0.01 * spent


def test_a_higher_cost_finds_out_more() -> None:
    def metered(cost: float) -> int:
        transform = Compose([Scale() for _ in range(8)])
        watched = watch(loader(Rows(400, transform=transform), batch_size=10), cost=cost)
        list(watched)
        return gather(watch_of(watched)).work[t.METERED_BATCHES]

    assert metered(0.001) < metered(10.0) == 40
