"""Batches are full whatever was taken out before them; the tail follows the declared policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from stoker import Pipeline, Quarantine
from stoker.engine.plan import make_plan
from stoker.errors import PlanError
from stoker.rng import Rng
from stoker.sample import Sample
from stoker.stages import Map
from stoker_plugins import collate
from tests.toys import Numbers

FILTERED, FAILING = {1, 2, 3, 11, 30}, {5, 12, 33}
LEFT = [n for n in range(41) if n not in FILTERED | FAILING]


@dataclass(frozen=True)
class Sieve(Map):
    """Filters some numbers, and fails at others."""

    name: ClassVar[str] = "toy.sieve"
    kind: ClassVar[str] = "augment"
    drops: ClassVar[bool] = True

    def apply(self, sample: Sample, rng: Rng) -> Sample | None:
        number = int(sample["x"])
        if number in FAILING:
            raise ValueError("not this one")
        if number in FILTERED:
            return None
        return {"__key__": sample["__key__"], "x": number, "words": np.full(number % 4 + 1, number)}


def gathers(**changes: Any) -> list[Any]:
    return [
        collate.List(4, **changes),
        collate.Pad(4, "words", **changes),
        collate.Concat(4, "words", **changes),
    ]


def run(gather: Any, workers: int, **options: Any) -> tuple[list[list[int]], Any]:
    made = Pipeline(
        "refill", Numbers(41, num_workers=workers), Sieve(num_workers=workers), gather,
        on_error=Quarantine(99), **{"epochs": 1, **options},
    )  # fmt: skip
    with made as loader:
        found = [[int(x) for x in batch["x"]] for batch in loader]
        ledger = loader.ledger
    assert ledger.balanced
    return found, ledger


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("index", range(3))
def test_what_was_taken_out_is_made_up_for(index: int, workers: int) -> None:
    found, ledger = run(gathers()[index], workers)
    assert [n for batch in found for n in batch] == LEFT
    assert [len(batch) for batch in found] == [4] * 8 + [1]
    assert (ledger.filtered, ledger.quarantined) == (len(FILTERED), len(FAILING))


@pytest.mark.parametrize("index", range(3))
def test_B16_a_last_batch_is_kept_dropped_or_merged(index: int) -> None:
    merged, _ = run(gathers(merge_last=True)[index], 2)
    assert [len(batch) for batch in merged] == [4] * 7 + [5]
    assert [n for batch in merged for n in batch] == LEFT
    dropped, ledger = run(gathers(drop_last=True)[index], 2)
    assert [len(batch) for batch in dropped] == [4] * 8
    assert ledger.dropped_tail == 1


@pytest.mark.parametrize("count", [1, 3, 4, 5, 7, 8, 9])
def test_merged_batches_are_counted_as_they_come(count: int) -> None:
    made = Pipeline("m", Numbers(count), collate.List(4, merge_last=True), epochs=1)
    with made as loader:
        sizes = [len(batch["x"]) for batch in loader]
        assert len(loader) == len(sizes) == collate.List(4, merge_last=True).batches(count)
    assert sum(sizes) == count
    assert all(size == 4 for size in sizes[:-1])
    assert sizes[-1] < 8


def test_B16_a_merged_tail_resumes_exactly_and_is_refused_over_ranks() -> None:
    made = Pipeline(
        "m", Numbers(41, shuffle=True), collate.List(4, merge_last=True), epochs=2, seed=3
    )
    with made as loader:
        plain = [batch["x"] for _ in range(2) for batch in loader]
    for stop in (1, 8, 9, 10, 11, 19):
        found: list[Any] = []
        with made as loader:
            while len(found) < stop:
                for batch in loader:
                    found.append(batch["x"])
                    if len(found) == stop:
                        break
            state = loader.state_dict()
        with made as loader:
            loader.load_state_dict(state)
            while len(found) < len(plain):
                found += [batch["x"] for batch in loader]
        assert found == plain
    with pytest.raises(PlanError, match="merge_last=True over 2 ranks"):
        make_plan(made.with_options(rank=0, world_size=2))
