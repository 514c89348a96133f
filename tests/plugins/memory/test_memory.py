"""The built-in memory policies."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.parameters import build, faults
from stoker.plugins import host
from stoker.policy import Memory
from stoker_plugins import memory


def test_each_sets_its_own_and_nothing_else() -> None:
    assert Memory().batches_per_update == 1
    assert Memory().micro_batch_size is None
    gathering = memory.Accumulate(gradient_accumulation_steps=4)
    assert (gathering.batches_per_update, gathering.micro_batch_size) == (4, None)
    splitting = memory.MicroBatch(16)
    assert (splitting.batches_per_update, splitting.micro_batch_size) == (1, 16)


@pytest.mark.parametrize(
    ("policy", "fault"),
    [
        (memory.Accumulate(4), None),
        (memory.MicroBatch(16), None),
        (memory.Accumulate(0), "gradient_accumulation_steps=0: allowed is int of at least 1"),
        (memory.MicroBatch(-2), "micro_batch=-2: allowed is int of at least 1"),
        (memory.MicroBatch("all"), "micro_batch='all': allowed is int of at least 1"),
    ],
)
def test_values_are_checked(policy: Any, fault: str | None) -> None:
    assert list(faults(policy)) == ([fault] if fault else [])


@pytest.mark.parametrize(
    ("name", "given"),
    [("micro_batch", {"micro_batch": 2}), ("accumulate", {"gradient_accumulation_steps": 2})],
)
def test_they_are_found_by_name(name: str, given: dict[str, int]) -> None:
    cls = host().policy_class("memory", name)
    assert cls.name == f"memory.{name}"
    assert cls.example.startswith(f"memory.{cls.__name__}(")
    policy = build(cls, cls.name, given)
    assert max(policy.batches_per_update, policy.micro_batch_size or 0) == 2
