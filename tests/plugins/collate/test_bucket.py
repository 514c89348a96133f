from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker import Pipeline, Quarantine
from stoker.errors import PlanError, SampleError
from stoker.rng import Rng
from stoker.sample import Sample
from stoker.stages import Map
from stoker.testing import assemble, check_stage
from stoker_plugins import collate
from tests.toys import Numbers

sizes_ = st.lists(st.integers(0, 60), max_size=60)
buckets = st.builds(
    lambda budget, edges, items, drop, unit: collate.Bucket(
        "x", budget, edges=tuple(sorted(edges)), max_items=items, drop_last=drop, multiple_of=unit
    ),
    st.integers(64, 200).map(float),
    st.sets(st.integers(1, 50).map(float), max_size=4),
    st.none() | st.integers(1, 5),
    st.booleans(),
    st.sampled_from([1, 4, 8]),
)


def test_contract() -> None:
    check_stage(collate.Bucket("x", 100.0))


def grouped(stage: Any, sizes: list[int], steps: list[int]) -> list[list[int]]:
    """Return the batches, as places in the epoch, when samples arrive in steps of such lengths."""
    waiting: list[int] = []
    made: list[list[int]] = []
    arrived = 0
    for step in [*steps, len(sizes)]:
        waiting += range(arrived, min(arrived + step, len(sizes)))
        arrived = min(arrived + step, len(sizes))
        for more in (True, False) if arrived == len(sizes) else (True,):
            groups = stage.group([[float(sizes[i])] for i in waiting], more)
            made += [[waiting[i] for i in group] for group in groups]
            gone = {waiting[i] for group in groups for i in group}
            waiting = [i for i in waiting if i not in gone]
        if arrived == len(sizes):
            break
    return made


@given(buckets, sizes_, st.lists(st.integers(1, 7), max_size=30))
def test_batches_do_not_depend_on_how_samples_arrive_and_keep_the_budget(
    stage: Any, sizes: list[int], steps: list[int]
) -> None:
    found = grouped(stage, sizes, steps)
    assert found == grouped(stage, sizes, [])
    taken = [i for batch in found for i in batch]
    assert len(taken) == len(set(taken))
    assert stage.drop_last or sorted(taken) == list(range(len(sizes)))
    for batch in found:
        assert batch == sorted(batch)
        samples = [{"__key__": f"{i}", "x": np.zeros(sizes[i])} for i in batch]
        padded = assemble(stage, samples)["x"]
        assert padded.numel() <= stage.budget
        assert stage.max_items is None or len(batch) <= stage.max_items


@given(sizes_)
def test_a_batch_holds_one_bucket_only(sizes: list[int]) -> None:
    stage = collate.Bucket("x", 120.0)
    for batch in grouped(stage, sizes, []):
        assert len({stage.edge(float(sizes[i])) for i in batch}) == 1


@pytest.mark.parametrize("size", [*range(1, 300), 0.3, 12.5, 1e6])
def test_an_edge_is_never_below_the_size_and_little_above(size: float) -> None:
    for measure in ("length", "value"):
        edge = collate.Bucket("x", 1.0, measure=measure).edge(float(size))  # type: ignore[arg-type]
        assert size <= edge <= size * 1.25 + 1e-9


@pytest.mark.parametrize(
    ("measure", "value", "size"),
    [
        ("length", [1, 2, 3], [3]),
        ("length", np.zeros((4, 9)), [4]),
        ("pixels", np.zeros((4, 9, 3), np.uint8), [4, 9]),
        ("value", 2.5, [2.5]),
        ("value", np.float32(2.5), [2.5]),
    ],
)
def test_what_a_sample_counts_as(measure: Any, value: Any, size: list[float]) -> None:
    assert collate.Bucket("x", 9.0, measure=measure).size({"x": value}) == size


@pytest.mark.parametrize(
    ("measure", "value", "message"),
    [
        ("length", 3, "holds 3, which has no measure='length'"),
        ("pixels", [1], "has no measure='pixels'"),
        ("value", "a", "has no measure='value'"),
        ("value", float("nan"), r"has size \[nan\]"),
        ("value", -1, r"has size \[-1"),
    ],
)
def test_what_has_no_size_is_refused(measure: Any, value: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        collate.Bucket("x", 9.0, measure=measure).size({"x": value})


def test_a_batch_is_padded() -> None:
    samples = [{"__key__": f"k{n}", "x": np.ones(n), "y": n} for n in (3, 4, 5)]
    batch = assemble(collate.Bucket("x", 100.0, multiple_of=4), samples)
    assert batch["x"].shape == (3, 8)
    assert batch["x_length"].tolist() == [3, 4, 5]
    assert batch["x"].sum(1).tolist() == [3, 4, 5]


def test_pictures_go_by_both_sides_so_that_padding_keeps_the_budget() -> None:
    stage = collate.Bucket("x", budget=4000.0, measure="pixels")
    shapes = [(10, 100), (100, 10), (10, 100), (9, 98), (10, 99)]
    samples = [{"__key__": f"{i}", "x": np.zeros((*s, 3))} for i, s in enumerate(shapes)]
    groups = stage.group([stage.size(sample) for sample in samples], False)
    assert sorted(i for group in groups for i in group) == list(range(5))
    for group in groups:
        padded = assemble(stage, [samples[i] for i in group])["x"]
        assert padded[..., 0].numel() <= 4000


def test_clips_of_less_than_a_second_share_a_batch() -> None:
    stage = collate.Bucket("s", budget=1.0, measure="value")
    assert [list(group) for group in stage.group([[0.2]] * 8, True)] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_empty_samples_do_not_wait_for_ever() -> None:
    groups = collate.Bucket("x", 10.0, max_items=4).group([[0.0]] * 9, True)
    assert [len(group) for group in groups] == [4, 4]


# -- in pipelines ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Words(Map):
    """Gives each number an array as long as a hash of it says; some have none."""

    name: ClassVar[str] = "toy.words"
    kind: ClassVar[str] = "augment"
    wrong_at: tuple[int, ...] = ()

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        number = int(sample["x"])
        length = number * 7919 % 37 + 1
        value = 5 if number in self.wrong_at else np.full(length, number)
        return {"__key__": sample["__key__"], "x": number, "words": value}


def pipeline(workers: int = 2, count: int = 90, **options: Any) -> Pipeline:
    wrong = options.pop("wrong_at", ())
    return Pipeline(
        "bucketed",
        Numbers(count, shuffle=True, num_workers=workers),
        Words(wrong, num_workers=workers),
        collate.Bucket("words", budget=options.pop("budget", 80.0)),
        **{"seed": 4, "epochs": 2, **options},
    )


def keys(loader: Any, most: int = 10**6) -> list[list[int]]:
    found: list[list[int]] = []
    for batch in loader:
        found.append(batch["x"].tolist())
        if len(found) == most:
            break
    return found


def test_every_sample_comes_once_an_epoch_whatever_the_workers() -> None:
    runs = []
    for workers in (1, 4):
        with pipeline(workers) as loader:
            runs.append([keys(loader), keys(loader)])
            assert loader.ledger.balanced
    assert runs[0] == runs[1]
    for epoch in runs[0]:
        assert sorted(n for batch in epoch for n in batch) == list(range(90))


def test_resume_is_exact_at_every_batch() -> None:
    with pipeline() as loader:
        plain = [*keys(loader), *keys(loader)]
    for stop in range(1, len(plain)):
        with pipeline() as loader:
            found: list[list[int]] = []
            while len(found) < stop:
                found += keys(loader, stop - len(found))
            state = loader.state_dict()
        with pipeline() as loader:
            loader.load_state_dict(state)
            while len(found) < len(plain):
                found += keys(loader)
        assert found == plain, f"stopped after {stop}"


def test_what_has_no_size_fails_as_a_sample_does() -> None:
    with pipeline(wrong_at=(5, 50), on_error=Quarantine(4)) as loader:
        found = sorted(n for batch in keys(loader) for n in batch)
        assert found == [n for n in range(90) if n not in (5, 50)]
        assert loader.ledger.quarantined == 2
    assert loader.ledger.balanced
    with pipeline(wrong_at=(5,)) as loader:
        with pytest.raises(SampleError, match=r"collate.bucket.*'5'.*has no measure"):
            keys(loader)
    assert loader.ledger.balanced


def test_a_sample_beyond_the_budget_is_an_error_or_alone() -> None:
    samples = [{"__key__": "long", "x": np.ones(200)}]
    with pytest.raises(ValueError, match=r"costs 200 in 'long', beyond the budget=100"):
        assemble(collate.Bucket("x", 100.0), samples)
    batch = assemble(collate.Bucket("x", 100.0, oversize="alone"), samples)
    assert batch["x"].shape == (1, 200)


def test_its_length_is_not_known_and_ranks_are_refused() -> None:
    with pipeline() as loader:
        with pytest.raises(TypeError, match="makes batches by size"):
            len(loader)
    with pytest.raises(PlanError, match=r"collate.bucket has none: use a collate stage with a bat"):
        with pipeline(rank=0, world_size=2) as loader:
            next(iter(loader))
