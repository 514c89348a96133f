"""Weighted, balanced, repeated and mixed sources at work: resume, ranks, workers, caches."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stoker import Pipeline
from stoker.errors import PlanError
from stoker.parameters import shown
from stoker.sample import PADDING
from stoker_plugins import cache
from stoker_plugins.read import Balanced, Dataset, Files, Mix, Repeated, WebDataset, Weighted
from tests.plugins.read.helpers import pairs, write_tar
from toys import Add, Draw, Lists, WithOther

EPOCHS, BATCH = 3, 4
Make = Callable[..., Any]


def weigh(address: Any) -> int:
    return int(address) % 5 + 1


def label(address: Any) -> int:
    return int(address % 7 == 0)


def numbers(count: int = 30, shuffle: bool = True) -> Dataset:
    return Dataset([{"x": number} for number in range(count)], shuffle=shuffle)


ORDERS: dict[str, Make] = {
    "weighted": lambda **how: Weighted(numbers(), weights=weigh, **how),
    "without": lambda **how: Weighted(
        numbers(), weights=weigh, num_samples=22, replacement=False, **how
    ),
    "balanced": lambda **how: Balanced(numbers(), label=label, **how),
    "repeated": lambda **how: Repeated(numbers(), distance=BATCH, **how),
    "longer": lambda **how: Repeated(numbers(12), times=2, length="longer", **how),
    "mix": lambda **how: Mix([numbers(), numbers(9)], weights=(2, 1), stop="longest", **how),
    "nested": lambda **how: Mix(
        [Repeated(Weighted(numbers(), weights=weigh)), Balanced(numbers(9), label=label)], **how
    ),
}


@pytest.fixture(params=ORDERS.values(), ids=ORDERS.keys())
def make(request: pytest.FixtureRequest) -> Make:
    made: Make = request.param
    return made


def pipeline(source: Any, *stages: Any, **options: Any) -> Pipeline:
    options = {"epochs": EPOCHS, "seed": 5, **options}
    gather = Lists(BATCH, whole=True)
    return Pipeline("orders", source, *stages, Draw(), gather, **options)


def delivered(made: Pipeline, epochs: int = EPOCHS) -> list[list[Any]]:
    with made as loader:
        found = [list(loader) for _ in range(epochs)]
    loader.ledger.check()
    return found


@pytest.mark.parametrize("stop", [0, 1, 5, 8, 13])
def test_B26_after_a_stop_the_rest_is_the_unbroken_runs(make: Make, stop: int) -> None:
    whole = delivered(pipeline(make()))
    pieces: list[list[Any]] = [[] for _ in range(EPOCHS)]
    state, given = None, 0
    for end, how in ((stop, {"executor": "thread", "num_workers": 3}), (None, {})):
        with pipeline(make(**how)) as loader:
            if state is not None:
                loader.load_state_dict(json.loads(state))
            while loader.epoch < EPOCHS and given != end:
                epoch = loader.epoch
                for batch in loader:
                    pieces[epoch].append(batch)
                    given += 1
                    if given == end:
                        break
            state = json.dumps(loader.state_dict())
    assert pieces == whole


def test_B17_draws_do_not_depend_on_workers(make: Make) -> None:
    ways: list[dict[str, Any]] = [
        {"executor": "inline"},
        *({"executor": "thread", "num_workers": count} for count in (1, 4)),
    ]
    first, *others = (delivered(pipeline(make(**way))) for way in ways)
    assert all(one == first for one in others)
    assert first[0] != first[1]  # another order, and other draws, in another epoch


def test_B17_nor_on_processes() -> None:
    source = ORDERS["nested"]
    there = delivered(pipeline(source(executor="process", num_workers=2)), 2)
    assert there == delivered(pipeline(source()), 2)


def test_two_ranks_cover_what_one_does(make: Make) -> None:
    [whole] = delivered(pipeline(make()), 1)
    shared: dict[int, Any] = {}
    rounds = set()
    for rank in range(2):
        [own] = delivered(pipeline(make(), rank=rank, world_size=2), 1)
        rounds.add(len(own))
        shared |= {number * 2 + rank: batch for number, batch in enumerate(own)}
    assert len(rounds) == 1
    flat = [sample for number in range(len(whole)) for sample in shared[number]]
    assert [one["__key__"] for one in flat] == [one["__key__"] for batch in whole for one in batch]
    assert [one["drawn"] for one in flat] == [one["drawn"] for batch in whole for one in batch]


def test_copies_at_the_distance_of_a_batch_are_in_one_step_of_several_ranks() -> None:
    source = Repeated(numbers(), times=2, distance=BATCH, length="longer")
    first, second = (
        delivered(pipeline(source, rank=rank, world_size=2), 1)[0] for rank in range(2)
    )
    for one, other in list(zip(first, second, strict=True))[:-1]:
        assert [sample["x"] for sample in one] == [sample["x"] for sample in other]
        assert all(a["drawn"] != b["drawn"] for a, b in zip(one, other, strict=True))
        assert PADDING not in one


def test_copies_differ_by_what_is_drawn_and_share_what_a_cache_keeps() -> None:
    asked: Counter[int] = Counter()

    class Counting(list[Any]):
        def __getitem__(self, index: Any) -> Any:
            asked[index] += 1
            return {"x": index}

    n, times = 600, 3
    source = Repeated(Dataset(Counting(range(n))), times, distance=n, length="longer")
    stages = (source, cache.Memory(), Draw(), Lists(20, whole=True))
    with Pipeline("cached", *stages, epochs=2, prefetch_batches=1) as loader:
        batches = [batch for _ in range(2) for batch in loader]
    drawn = {tuple(sample["drawn"]) for batch in batches for sample in batch}
    assert len(drawn) == 2 * n * times
    assert set(asked) == set(range(n))
    assert sum(asked.values()) < 2 * n  # of 6 n samples; the last ones were asked for too early


def test_other_samples_of_the_epoch_are_found_by_stages_that_mix(make: Make) -> None:
    [batches] = delivered(pipeline(make(), WithOther()), 1)
    seen = {sample["x"] for batch in batches for sample in batch}
    assert {other for batch in batches for sample in batch for other in sample["other"]} <= seen


def test_files_and_shards_inside_reach_a_process(tmp_path: Path) -> None:
    for name in ("cat/a.jpg", "dog/a.jpg", "dog/b.jpg"):
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_bytes(b"x")
    write_tar(tmp_path / "a.tar", pairs(3))
    source = Mix(
        [Balanced(Files(tmp_path / "tree", shuffle=True)), WebDataset(tmp_path / "a.tar")],
        executor="process",
        num_workers=1,
    )
    with Pipeline("x", source, epochs=1) as loader:
        found = [sample["__key__"] for sample in loader]
    assert len(found) == 6
    assert sum(key.startswith("1/0000") for key in found) == 3


def test_a_lambda_is_refused_in_processes_by_its_place_in_the_nest() -> None:
    inner = Weighted(numbers(), weights=lambda address: 1)
    made = pipeline(Mix([inner, numbers()], executor="process"))
    with pytest.raises(PlanError, match=r"sources\[0\]\.weights is a lambda"):
        made.loader().close()


def test_the_plan_shows_what_is_nested_and_counts_its_samples(tmp_path: Path) -> None:
    source = Repeated(numbers(12), times=2, length="longer")
    with Pipeline("x", source, Add(), Lists(4), epochs=2) as loader:
        text = str(loader.plan)
        assert len(loader) == 6
    assert "2 epochs of 24 samples" in text
    assert "read.repeated(source=read.dataset(dataset=" in text
    assert shown(source) in text
