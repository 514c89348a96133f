"""What comes out of the engine: everything once, in order, for any way of running."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker import Pipeline, Quarantine
from stoker.sample import nbytes
from toys import Add, BySum, Copies, Draw, KeepEven, Lists, Numbers, Stream, WithOther


def delivered(pipeline: Pipeline, epochs: int = 1) -> tuple[list[Any], Any]:
    out = []
    with pipeline as loader:
        for _ in range(epochs):
            out += list(loader)
        ledger = loader.ledger
    ledger.check()
    return out, ledger


WAYS = st.sampled_from([("inline", 1), ("thread", 1), ("thread", 2), ("thread", 4)])


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    n=st.integers(1, 90),
    batch=st.integers(1, 17),
    drop_last=st.booleans(),
    shuffle=st.booleans(),
    read=WAYS,
    work=WAYS,
    filters=st.booleans(),
    expands=st.booleans(),
    by_sum=st.booleans(),
    failing=st.sets(st.integers(0, 89), max_size=4),
    epochs=st.integers(1, 3),
    prefetch=st.sampled_from([1, 2, 4]),
)
def test_everything_comes_out_once_and_in_order(
    n: int,
    batch: int,
    drop_last: bool,
    shuffle: bool,
    read: tuple[Any, int],
    work: tuple[Any, int],
    filters: bool,
    expands: bool,
    by_sum: bool,
    failing: set[int],
    epochs: int,
    prefetch: int,
) -> None:
    def pipeline(read: tuple[Any, int], work: tuple[Any, int], prefetch: int) -> Pipeline:
        how = {"executor": work[0], "num_workers": work[1]}
        return Pipeline(
            "property",
            Numbers(n, shuffle=shuffle, executor=read[0], num_workers=read[1]),
            Add(fail_at=tuple(failing), **how),
            *([KeepEven(**how)] if filters else []),
            *([Copies(**how)] if expands else []),
            Draw(**how),
            BySum(25) if by_sum else Lists(batch, drop_last=False if not drop_last else n >= batch),
            on_error=Quarantine(100),
            epochs=epochs,
            prefetch_batches=prefetch,
            seed=3,
        )

    got, ledger = delivered(pipeline(read, work, prefetch), epochs)
    plain, reference = delivered(pipeline(("inline", 1), ("inline", 1), 1), epochs)
    assert got == plain
    assert ledger == reference
    assert ledger.read == n * epochs
    assert ledger.unused == 0


@pytest.mark.parametrize("executor", ["inline", "thread"])
def test_known_order_without_shuffle(executor: Any) -> None:
    got, _ = delivered(
        Pipeline("known", Numbers(10, executor=executor), Add(1, executor=executor), Lists(4))
    )
    assert got == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]


def test_dropped_tail_is_counted() -> None:
    got, ledger = delivered(Pipeline("tail", Numbers(10), Lists(4, drop_last=True)))
    assert got == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert (ledger.read, ledger.delivered, ledger.dropped_tail) == (10, 8, 2)


def test_filtered_and_expanded_are_counted() -> None:
    pipeline = Pipeline("counted", Numbers(10), KeepEven(), Copies(3), Lists(100))
    got, ledger = delivered(pipeline)
    # 0 and 6 make no copies, 4 makes one, 2 and 8 make two
    assert got == [[2, 2, 4, 8, 8]]
    assert (ledger.read, ledger.expanded, ledger.filtered, ledger.delivered) == (10, 2, 7, 5)


def test_any_order_delivers_everything_within_its_epoch() -> None:
    pipeline = Pipeline(
        "any",
        Numbers(60),
        Add(sleep_s=0.0005, num_workers=4),
        Lists(7),
        in_order=False,
        epochs=2,
    )
    with pipeline as loader:
        for _ in range(2):
            assert sorted(x for batch in loader for x in batch) == list(range(60))
    loader.ledger.check()


def test_a_stream_keeps_its_order_and_its_epochs() -> None:
    pipeline = Pipeline("stream", Stream(3, 5), Add(num_workers=3), Lists(4), epochs=2)
    got, ledger = delivered(pipeline, 2)
    once = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14]]
    assert got == once * 2
    assert ledger.read == 30


def test_a_broken_shard_costs_one_failure_and_the_stream_goes_on() -> None:
    got, ledger = delivered(
        Pipeline("broken", Stream(3, 5, broken=(1,)), Lists(100), on_error=Quarantine(1))
    )
    assert got == [[0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14]]
    assert ledger.quarantined == 1


@pytest.mark.parametrize("workers", [1, 4])
def test_mix_sees_others_as_they_look_at_their_own_place(workers: int) -> None:
    def pipeline(**how: Any) -> Pipeline:
        return Pipeline(
            "mix",
            Numbers(20, shuffle=True),
            Add(100, **how),
            Draw(**how),
            WithOther(**how),
            Lists(50, whole=True),
        )

    got, _ = delivered(pipeline(num_workers=workers))
    reference, _ = delivered(pipeline(executor="inline"))
    assert got == reference
    others = [sample["other"] for sample in got[0]]
    assert all(100 <= other[0] < 120 for other in others)
    assert len({other[0] for other in others}) > 5  # drawn, not fixed


def test_B17_draws_depend_on_seed_epoch_and_position_alone() -> None:
    def drawn(how: dict[str, Any], seed: int = 5) -> list[Any]:
        pipeline = Pipeline(
            "draws", Numbers(12), Draw(**how), Draw(**how), Lists(5, whole=True), seed=seed
        )
        out, _ = delivered(pipeline, 2)
        return [sample["drawn"] for batch in out for sample in batch]

    reference = drawn({"executor": "inline"})
    assert drawn({"num_workers": 1}) == reference
    assert drawn({"num_workers": 4}) == reference
    assert drawn({"num_workers": 4}, seed=6) != reference
    flat = [value for draws in reference for value in draws]
    assert len(set(flat)) == len(flat)  # epochs, samples, stages and faces all differ


def test_epochs_follow_one_another_without_a_pause() -> None:
    """The next epoch is read while the last batches of this one are still to be taken."""
    pipeline = Pipeline("pause", Numbers(40), Lists(4), epochs=2, prefetch_batches=20)
    with pipeline as loader:
        for number, _ in enumerate(loader):
            if number == 8:
                deadline = time.monotonic() + 10
                while loader.ledger.read <= 40 and time.monotonic() < deadline:
                    time.sleep(0.001)
                assert loader.ledger.read > 40
        assert [x for batch in loader for x in batch] == list(range(40))


def test_bytes_in_flight_keep_to_the_budget() -> None:
    class Big(Numbers):
        def read(self, address: Any) -> Any:
            return {"__key__": str(address), "x": address, "blob": b"." * 10_000}

    sample = Big().read(399)  # the largest: its key is as long as any
    budget = 12 * nbytes(sample)
    pipeline = Pipeline(
        "budget", Big(400, num_workers=4), Add(num_workers=2), prefetch_bytes=budget
    )
    with pipeline as loader:
        for number, _ in enumerate(loader):
            if number < 3:
                time.sleep(0.02)  # the consumer is slow: everything piles up
            flow = loader.flow
            assert flow is not None
        assert 0 < flow.peak_bytes <= budget
    loader.ledger.check()


def test_a_full_window_stops_reading_ahead() -> None:
    pipeline = Pipeline("window", Numbers(10_000, num_workers=2), Lists(2), prefetch_batches=2)
    with pipeline as loader:
        next(iter(loader))
        time.sleep(0.1)
        read = loader.ledger.read
        time.sleep(0.1)
        assert loader.ledger.read == read < 1_000


def test_no_thread_holds_a_sample_after_it_was_delivered() -> None:
    import gc
    import weakref

    class Thing:
        pass

    class Things(Numbers):
        def read(self, address: Any) -> Any:
            thing = Thing()
            alive.add(thing)
            return {"__key__": str(address), "x": address, "thing": thing}

    alive: weakref.WeakSet[Thing] = weakref.WeakSet()
    with Pipeline("alive", Things(6), Add(), Lists(2)) as loader:
        for _ in loader:
            pass
        gc.collect()
        assert len(alive) == 0
    assert threading.active_count() >= 1
