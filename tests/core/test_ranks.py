"""Sharing an epoch over ranks: by position, aligned, and with another number after a stop."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker import Pipeline, Quarantine
from stoker.errors import PlanError, RunError
from stoker.sample import PADDING
from stoker_plugins import collate, read
from toys import Add, BySum, Copies, Draw, KeepEven, Lists, Numbers, Stream


def pipeline(n: int, batch: int, rank: int, ranks: int, **more: Any) -> Pipeline:
    options = {"epochs": 2, "seed": 3, **more}
    drop_last = options.pop("drop_last", False)
    stages = options.pop("stages", (Draw(),))
    source = options.pop("source", Numbers(n, shuffle=True))
    gather = Lists(batch, drop_last=drop_last, whole=True)
    return Pipeline("ranks", source, *stages, gather, rank=rank, world_size=ranks, **options)


def epochs_of(made: Pipeline, epochs: int = 2) -> list[list[Any]]:
    with made as loader:
        out = [list(loader) for _ in range(epochs)]
    loader.ledger.check()
    return out


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    n=st.integers(1, 60),
    batch=st.integers(1, 8),
    ranks=st.integers(2, 5),
    stops=st.lists(st.tuples(st.integers(0, 4), st.integers(1, 5)), max_size=3),
)
def test_any_number_of_ranks_continues_the_same_global_order(
    n: int, batch: int, ranks: int, stops: list[tuple[int, int]]
) -> None:
    """Each stop: after so many batches on every rank, go on with so many ranks."""
    [whole, _] = epochs_of(pipeline(n, batch, 0, 1))
    order = [sample for one in whole for sample in one]
    full = len(order) // batch  # whole batches of an epoch
    got: dict[int, list[Any]] = {}
    state: str | None = None
    for steps, world in [*stops, (1000, ranks)]:
        states, reached = set(), state
        for rank in range(world):
            with pipeline(n, batch, rank, world) as loader:
                if state is not None:
                    loader.load_state_dict(json.loads(state))
                first = json.loads(state)["batch"] if state is not None else 0
                if loader.epoch:
                    break  # the epoch ended with the last piece
                taken = 0
                for taken, samples in enumerate(loader, 1):
                    number = first + (taken - 1) * world + rank
                    if number * batch < n:
                        assert number not in got
                        got[number] = samples
                    if taken == steps:
                        break
                saved = loader.state_dict()
                states.add(json.dumps({k: v for k, v in saved.items() if k != "ledger"}))
                reached = json.dumps(saved)
        state = reached
        if world == 1 and json.loads(state or "{}")["position"] % batch:
            break  # between epochs of unequal batches only one rank can go on
        assert len(states) <= 1  # all ranks say the same
    assert sorted(got) == list(range(-(-n // batch)))
    assert [sample for number in sorted(got) for sample in got[number]] == order
    assert full <= len(got)


@pytest.mark.parametrize(("n", "batch", "ranks"), [(21, 4, 2), (5, 1, 4), (5, 2, 4), (3, 2, 4)])
def test_B30_evaluation_counts_each_once_and_padding_is_reported(
    n: int, batch: int, ranks: int
) -> None:
    seen: list[int] = []
    counts, padded = set(), 0
    for rank in range(ranks):
        source = read.Synthetic(samples=n, shape=(2,))
        made = Pipeline("b30", source, collate.Stack(batch), rank=rank, world_size=ranks)
        with made as loader:
            batches = list(loader)
            counts.add(len(batches))
            assert len(loader) == len(batches)
            ledger = loader.ledger
            cautions = loader.plan.cautions
        ledger.check()
        padded += ledger.padded
        seen += [key for one in batches if PADDING not in one for key in one["__key__"]]
        assert ledger.padded == sum(one.get(PADDING, 0) for one in batches)
    assert len(seen) == len(set(seen)) == n
    assert len(counts) == 1  # every rank got as many batches
    rounds = -(-n // (batch * ranks))
    assert (padded > 0) == (rounds * ranks > -(-n // batch))
    assert any("repeat samples" in caution for caution in cautions) == (padded > 0)


def test_padding_is_left_out_of_an_evaluation() -> None:
    from stoker import Task
    from stoker.run.runner import open_step
    from stoker_plugins import step

    task = Task(
        model=lambda: torch.nn.Linear(2, 1),
        loss=lambda model, batch: (torch.zeros(()), torch.tensor(len(batch["__key__"]))),
        metrics=lambda model, batch: {"n": (torch.tensor(1.0), torch.tensor(1))},
    )
    counted = 0
    for rank in range(4):
        source = read.Synthetic(samples=5, shape=(2,))
        stages = (source, collate.Stack(2), step.Evaluate(task))
        with Pipeline("sums", *stages, rank=rank, world_size=4) as loader:
            with open_step(loader.plan) as session:
                counted += sum(session(batch).samples for batch in loader)
    assert counted == 5


def test_B31_fewer_shards_than_ranks() -> None:
    for shards, per_shard, ranks in ((1, 40, 4), (3, 14, 2)):
        seen: list[int] = []
        counts = set()
        for rank in range(ranks):
            made = pipeline(
                0, 3, rank, ranks, source=Stream(shards, per_shard), drop_last=True, epochs=1
            )
            with made as loader:
                batches = list(loader)
                assert any("reads the whole stream" in text for text in loader.plan.cautions)
            loader.ledger.check()
            counts.add(len(batches))
            seen += [sample["x"] for one in batches for sample in one]
        whole = shards * per_shard
        assert counts == {whole // (3 * ranks)}
        assert sorted(seen) == list(range(whole // (3 * ranks) * 3 * ranks))


def test_what_fails_leaves_its_batch_smaller_and_ranks_aligned() -> None:
    made = [
        pipeline(40, 4, rank, 2, stages=(Add(fail_at=(5, 6)),), on_error=Quarantine(9), epochs=1)
        for rank in range(2)
    ]
    sizes = [[len(one) for one in epochs_of(one, 1)[0]] for one in made]
    assert [len(rank) for rank in sizes] == [5, 5]
    assert sum(map(sum, sizes)) == 38
    filtered = [pipeline(40, 10, r, 2, stages=(KeepEven(),), epochs=1) for r in range(2)]
    numbers = [sample["x"] for one in filtered for some in epochs_of(one, 1)[0] for sample in some]
    assert sorted(numbers) == list(range(0, 40, 2))


def test_a_batch_of_which_nothing_is_left_is_an_error() -> None:
    made = pipeline(8, 1, 0, 2, source=Numbers(8), stages=(KeepEven(),))
    with pipeline(8, 1, 1, 2, source=Numbers(8), stages=(KeepEven(),)) as loader:
        with pytest.raises(RunError, match="all samples of batch 1 of epoch 0 were left out"):
            list(loader)
    assert len(epochs_of(made, 1)[0]) == 4


def test_torchrun_says_which_rank_this_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    with Pipeline("env", Numbers(12), Lists(2)) as loader:
        assert [x for one in loader for x in one] == [2, 3, 8, 9]
        assert "rank 1 of 3" in str(loader.plan)


def test_what_ranks_cannot_share_is_refused_at_once() -> None:
    stages = (Numbers(100), Copies(), BySum(10))
    for made, why in (
        (Pipeline("r", *stages, world_size=2, rank=0), "toy.by_sum has none"),
        (Pipeline("r", Numbers(9), world_size=2, rank=0), "no stage makes batches"),
        (Pipeline("r", Numbers(9), Copies(), Lists(2), world_size=2, rank=0), "several samples"),
        (Pipeline("r", Numbers(9), Lists(2), world_size=2, rank=2), "ranks count from 0"),
        (Pipeline("r", Numbers(9), Lists(2), world_size=2, rank=0, in_order=False), "aligned"),
        (Pipeline("r", Stream(), Lists(2), world_size=2, rank=0), "set drop_last=True"),
        (Pipeline("r", Numbers(3), Lists(2, drop_last=True), world_size=2, rank=0), "too few"),
    ):
        with pytest.raises(PlanError, match=why), made:
            pass


@pytest.mark.parametrize(("name", "given"), [("RANK", "x"), ("WORLD_SIZE", "2.0"), ("RANK", "")])
def test_nonsense_in_the_environment_is_told(
    name: str, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in ("RANK", "WORLD_SIZE"):
        monkeypatch.setenv(other, "1")
    monkeypatch.setenv(name, given)
    with (
        pytest.raises(PlanError, match=f"environment has {name}='{given}'"),
        Pipeline("env", Numbers(12), Lists(2)),
    ):
        pass
    with Pipeline("env", Numbers(12), Lists(2), rank=0, world_size=1) as loader:
        assert len(list(loader)) == 6


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE"])
def test_half_of_what_torchrun_says_is_not_taken_for_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setenv(name, "3")
    with Pipeline("env", Numbers(12), Lists(2)) as loader:
        assert len(list(loader)) == 6
