"""Exact resume: the pieces of a loader that was stopped, together, are the unbroken run."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker import Pipeline, Quarantine
from stoker.errors import QuarantineError, RunError, SampleError, UsageError
from stoker.loader import Loader
from toys import Add, BySum, Copies, Draw, KeepEven, Lists, Numbers, Stream, WithOther

EPOCHS = 3


def unbroken(pipeline: Pipeline) -> tuple[list[list[Any]], Any]:
    with pipeline as loader:
        epochs = [list(loader) for _ in range(EPOCHS)]
        return epochs, loader.ledger


def in_pieces(pipelines: list[Pipeline], stops: list[int]) -> tuple[list[list[Any]], Any]:
    """Deliver with a new loader after every stop, each from the JSON of the last one's state."""
    epochs: list[list[Any]] = [[] for _ in range(EPOCHS)]
    state: str | None = None
    given = 0
    ends = [*sorted(stops), None]
    for number, stop in enumerate(ends):
        with pipelines[number % len(pipelines)] as loader:
            if state is not None:
                loader.load_state_dict(json.loads(state))
                assert loader.state_dict() == json.loads(state)  # save, load, save
            stopped = False
            while loader.epoch < EPOCHS and not stopped:
                epoch = loader.epoch
                if stop is not None and given >= stop:
                    break
                for batch in loader:
                    epochs[epoch].append(batch)
                    given += 1
                    if given == stop:
                        stopped = True
                        break
            state = json.dumps(loader.state_dict())
            ledger = loader.ledger
    return epochs, ledger


WAYS = st.sampled_from([("inline", 1), ("thread", 1), ("thread", 2), ("thread", 4)])
KINDS = st.sampled_from(["indexed", "stream", "windowed"])


def made(
    kind: str, n: int, way: tuple[Any, int], tail: str, shuffle: bool, extra: set[str], batch: int
) -> Pipeline:
    how: dict[str, Any] = {"executor": way[0], "num_workers": way[1]}
    source: Any = Numbers(n, shuffle=shuffle, **how)
    if kind != "indexed":
        broken = (1,) if "broken" in extra else ()
        window = 7 if kind == "windowed" else 0
        source = Stream(max(n // 6, 1), 6, broken, shuffle_window=window)
    gathers: dict[str, Any] = {
        "drop": [Lists(batch, drop_last=n > batch)],
        "keep": [Lists(batch)],
        "by size": [BySum(40)],
        "none": [],
    }
    return Pipeline(
        "resume",
        source,
        Add(fail_at=(3, 11) if "failing" in extra else (), **how),
        *([KeepEven(**how)] if "filters" in extra else []),
        *([Copies(**how)] if "expands" in extra else []),
        Draw(**how),
        *gathers[tail],
        epochs=EPOCHS,
        on_error=Quarantine(100),
        seed=5,
    )


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    kind=KINDS,
    n=st.integers(1, 60),
    batch=st.integers(1, 9),
    shuffle=st.booleans(),
    ways=st.lists(WAYS, min_size=1, max_size=3),
    tail=st.sampled_from(["drop", "keep", "by size", "none"]),
    extra=st.sets(st.sampled_from(["filters", "expands", "failing", "broken"])),
    stops=st.lists(st.integers(0, 150), max_size=4),
)
def test_all_pieces_together_are_the_unbroken_run(
    kind: str,
    n: int,
    batch: int,
    shuffle: bool,
    ways: list[tuple[Any, int]],
    tail: str,
    extra: set[str],
    stops: list[int],
) -> None:
    pipelines = [made(kind, n, way, tail, shuffle, extra, batch) for way in ways]
    whole, ledger = unbroken(pipelines[0])
    pieces, last = in_pieces(pipelines, stops)
    assert pieces == whole
    assert last.delivered == ledger.delivered
    if tail != "drop":  # else a tail that makes no batch may never be read
        assert last.dropped_tail == ledger.dropped_tail


def test_what_was_delivered_is_not_read_again() -> None:
    pipeline = Pipeline("seek", Numbers(1000), Lists(10))
    with pipeline as loader:
        batches = iter(loader)
        for _ in range(40):
            next(batches)
        state = loader.state_dict()
    with pipeline as loader:
        loader.load_state_dict(state)
        assert sum(map(len, loader)) == 600
        ledger = loader.ledger
    assert ledger.read == ledger.delivered == 1000  # 400 by the first, 600 by the second


def test_a_stream_says_how_much_it_reads_again() -> None:
    pipeline = Pipeline("stream", Stream(10, 100), Lists(10))
    with pipeline as loader:
        batches = iter(loader)
        for _ in range(55):
            next(batches)
        state = loader.state_dict()
    with pipeline as loader:
        loader.load_state_dict(state)
        assert [x for batch in loader for x in batch] == list(range(550, 1000))
        loader.close()
        assert loader.reread == 50  # from its shard's start


def test_B26_stop_inside_epoch_2_and_go_on_to_epoch_4() -> None:
    def pipeline(workers: int) -> Pipeline:
        return Pipeline(
            "b26", Numbers(50, shuffle=True, num_workers=workers), Draw(), Lists(8), epochs=4
        )

    with pipeline(1) as loader:
        whole = [list(loader) for _ in range(4)]
    with pipeline(4) as loader:
        assert [list(loader), list(loader)] == whole[:2]
        batches = iter(loader)
        assert [next(batches) for _ in range(3)] == whole[2][:3]
        state = loader.state_dict()
    with pipeline(2) as loader:
        loader.load_state_dict(state)
        assert loader.epoch == 2
        assert [list(loader), list(loader)] == [whole[2][3:], whole[3]]


def test_B27_the_end_of_an_epoch_is_the_start_of_the_next() -> None:
    pipeline = Pipeline("b27", Numbers(20, shuffle=True), Lists(5), epochs=3)
    with pipeline as loader:
        whole = [list(loader) for _ in range(3)]
    with pipeline as loader:
        list(loader)
        after = loader.state_dict()
    with pipeline as loader:
        batches = iter(loader)
        for _ in range(4):
            next(batches)
        before = loader.state_dict()  # the last batch came, its epoch's end did not
    for state in (after, before):
        with pipeline as loader:
            loader.load_state_dict(state)
            assert loader.epoch == 1
            assert [list(loader), list(loader)] == whole[1:]


def test_S10_what_a_shuffling_window_holds_is_part_of_the_state() -> None:
    pipeline = Pipeline("s10", Stream(20, 10, shuffle_window=32), Lists(7), seed=2)
    with pipeline as loader:
        whole = [x for batch in loader for x in batch]
    assert sorted(whole) == list(range(200)) != whole
    for stop in (1, 9, 20, 27):
        with pipeline as loader:
            batches = iter(loader)
            first = [x for _ in range(stop) for x in next(batches)]
            state = loader.state_dict()
        with pipeline as loader:
            loader.load_state_dict(state)
            assert first + [x for batch in loader for x in batch] == whole


def test_a_window_shuffles_anew_in_each_epoch() -> None:
    pipeline = Pipeline("window", Stream(10, 10, shuffle_window=16), Lists(100), epochs=2)
    with pipeline as loader:
        [one], [two] = list(loader), list(loader)
    assert one != two
    assert sorted(one) == sorted(two)


def test_a_failure_can_be_gone_on_from() -> None:
    with Pipeline("fails", Numbers(40), Add(fail_at=(21,)), Lists(4)) as loader:
        got = []
        with pytest.raises(SampleError):
            for batch in loader:
                got += batch
        state = loader.state_dict()
    with Pipeline("mended", Numbers(40), Add(), Lists(4)) as loader:
        loader.load_state_dict(state)
        got += [x for batch in loader for x in batch]
    assert got == list(range(40))


def test_the_state_is_small_and_quick_to_take() -> None:
    with Pipeline("small", Numbers(200_000, shuffle=True), Lists(256)) as loader:
        for number, _ in enumerate(loader):
            if number == 300:
                break
        begun = time.thread_time_ns()
        for _ in range(100):
            state = loader.state_dict()
        assert len(json.dumps(state)) < 2000
        spent = time.thread_time_ns() - begun
        batches = iter(loader)
        begun = time.thread_time_ns()
        for _ in range(100):
            next(batches)
        # A share of what a batch of no-op stages costs the consumer, and no more.
        assert spent < 20 * (time.thread_time_ns() - begun)


def test_a_state_of_something_else_is_refused() -> None:
    with Pipeline("one", Numbers(20), Lists(5)) as loader:
        state = loader.state_dict()
    with Pipeline("other", Numbers(21), Lists(5), seed=3) as loader:
        with pytest.raises(UsageError, match=r"samples 20 \(here 21\), seed 0 \(here 3\)"):
            loader.load_state_dict(state)
        for wrong, why in (
            (None, "no state"),
            ({}, "no state"),
            ({**state, "version": 9}, "version 9"),
            ({**state, "batch": "x"}, "damaged"),
        ):
            with pytest.raises(UsageError, match=why):
                loader.load_state_dict(wrong)
        assert len(list(loader)) == 5  # nothing was changed by it


def test_set_epoch_to_the_present_one_keeps_the_place() -> None:
    pipeline = Pipeline("set", Numbers(20), Lists(5), epochs=2)
    with pipeline as loader:
        next(iter(loader))
        state = loader.state_dict()
    with pipeline as loader:
        loader.load_state_dict(state)
        got = []
        for epoch in range(loader.epoch, 2):  # as loops with a sampler do
            loader.set_epoch(epoch)
            got.append(len(list(loader)))
    assert got == [3, 4]


def test_out_of_order_nothing_is_lost_or_repeated() -> None:
    def pipeline(workers: int) -> Pipeline:
        stages = (Numbers(300, num_workers=workers), Add(num_workers=workers), Lists(7))
        return Pipeline("loose", *stages, in_order=False)

    got: list[int] = []
    state = None
    for workers, stop in ((4, 5), (2, 11), (1, None)):
        with pipeline(workers) as loader:
            if state is not None:
                loader.load_state_dict(json.loads(state))
            for number, batch in enumerate(loader, 1):
                got += batch
                if number == stop:
                    break
            state = json.dumps(loader.state_dict())
    assert sorted(got) == list(range(300))


def test_a_stage_that_sees_other_samples_sees_the_same_ones() -> None:
    pipeline = Pipeline("mix", Numbers(30, shuffle=True), WithOther(), Lists(4, whole=True))
    with pipeline as loader:
        whole = list(loader)
    with pipeline as loader:
        batches = iter(loader)
        first = [next(batches) for _ in range(3)]
        state = loader.state_dict()
    with pipeline as loader:
        loader.load_state_dict(state)
        assert first + list(loader) == whole


@pytest.mark.parametrize("stop", [1, 4, 9])
def test_the_quarantine_goes_on_and_counts_nothing_twice(stop: int, tmp_path: Path) -> None:
    file = tmp_path / "quarantine.jsonl"
    failing = Add(fail_at=(2, 15, 16, 31))
    pipeline = Pipeline("q", Numbers(60), failing, Lists(4), on_error=Quarantine(8), epochs=2)
    with Loader(pipeline, quarantine=file) as loader:
        batches = iter(loader)
        for _ in range(stop):
            next(batches)
        state = loader.state_dict()
    file.write_text(file.read_text() + '{"epoch": 0, "cut')  # a kill in the middle of a line
    with Loader(pipeline, quarantine=file) as loader:
        loader.load_state_dict(state)
        while loader.epoch < 2:
            list(loader)
        assert len(loader.failures.records) == 8  # four an epoch
        assert loader.ledger.quarantined == 8
    strict = Pipeline("q", Numbers(60), failing, Lists(4), on_error=Quarantine(3), epochs=2)
    with Loader(strict) as loader:  # without a file the state alone tells
        loader.load_state_dict(state)
        with pytest.raises(QuarantineError, match="[45] samples failed"):
            while loader.epoch < 2:
                list(loader)


def test_a_loader_goes_back_to_a_state_of_its_own() -> None:
    with Pipeline("back", Numbers(100), Lists(5)) as loader:
        batches = iter(loader)
        first = [next(batches) for _ in range(4)]
        state = loader.state_dict()
        for _ in range(9):
            next(batches)
        loader.load_state_dict(state)
        assert first + list(loader) == [list(range(n, n + 5)) for n in range(0, 100, 5)]
    loader.ledger.check()
    assert (loader.ledger.read, loader.ledger.delivered) == (100, 100)


def test_a_stream_of_other_shards_is_refused() -> None:
    with Pipeline("shards", Stream(4, 10), Lists(5)) as loader:
        next(iter(loader))
        state = loader.state_dict()
    for shards in (3, 5):
        with Pipeline("shards", Stream(shards, 10), Lists(5)) as loader:
            loader.load_state_dict(state)
            with pytest.raises(RunError, match=f"the {shards} shards are not those that epoch 0"):
                list(loader)
        loader.ledger.check()
