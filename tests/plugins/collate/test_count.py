from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.errors import UsageError
from stoker.parameters import build, faults
from stoker_plugins.collate.lists import List
from stoker_plugins.collate.stack import Stack


def run(stage, chunks):
    """Group as the engine does: samples arrive in chunks, those in no batch wait."""
    waiting, batches, arrived = [], [], 0
    for i, chunk in enumerate([*chunks, None]):
        more = chunk is not None
        if more:
            waiting += range(arrived, arrived + chunk)
            arrived += chunk
        elif i == 0 and not waiting:
            break
        groups = stage.group([1] * len(waiting), more)
        batches += [[waiting[index] for index in group] for group in groups]
        taken = {index for group in groups for index in group}
        waiting = [sample for index, sample in enumerate(waiting) if index not in taken]
    return batches, waiting


@given(
    chunks=st.lists(st.integers(0, 40), max_size=12),
    batch_size=st.integers(1, 17),
    drop_last=st.booleans(),
)
def test_batches_do_not_depend_on_how_samples_arrive(chunks, batch_size, drop_last):
    stage, total = Stack(batch_size, drop_last=drop_last), sum(chunks)
    batches, left = run(stage, chunks)
    assert batches == run(stage, [1] * total)[0] == run(stage, [total])[0]
    assert [sample for batch in batches for sample in batch] + left == list(range(total))
    assert len(batches) == stage.batches(total)
    assert all(len(batch) == batch_size for batch in batches[:-1])
    assert not (left and not drop_last)
    assert len(left) < batch_size


@pytest.mark.parametrize("samples", [0, 1, 3, 4, 5, 8, 9])
def test_counts(samples):
    assert List(4).batches(samples) == math.ceil(samples / 4)
    assert List(4, drop_last=True).batches(samples) == samples // 4


def test_B16_the_tail_is_kept_unless_it_is_dropped():
    assert run(Stack(2), [3]) == ([[0, 1], [2]], [])
    assert run(Stack(2, drop_last=True), [3]) == ([[0, 1]], [2])


@pytest.mark.parametrize("cls", [Stack, List])
def test_the_batch_size_is_required_and_at_least_one(cls):
    with pytest.raises(UsageError, match=r"needs batch_size \(int of at least 1\)"):
        build(cls, cls.name, {})
    assert list(faults(cls(0)))
    assert list(faults(cls(True)))
    assert not list(faults(cls(1)))
