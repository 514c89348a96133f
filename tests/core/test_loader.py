"""The loader: iterating, leaving early, errors, closing."""

from __future__ import annotations

import gc
import threading
import time
import warnings
from typing import Any

import pytest

from stoker import Pipeline, Quarantine
from stoker import loader as loader_module
from stoker.errors import QuarantineError, RunError, SampleError, UsageError
from toys import Add, Blocks, KeepEven, Lists, Numbers, Opens, Stream


def ours() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("stoker-")]


@pytest.fixture(autouse=True)
def _no_thread_left() -> Any:
    yield
    deadline = time.monotonic() + 5
    while ours() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert ours() == []


def test_len_is_exact_or_a_type_error_that_says_why() -> None:
    with Pipeline("len", Numbers(10), Lists(4)) as loader:
        assert len(loader) == 3 == len(list(loader))
    with Pipeline("len", Numbers(10), Lists(4, drop_last=True)) as loader:
        assert len(loader) == 2 == len(list(loader))
    with Pipeline("len", Numbers(10)) as loader:
        assert len(loader) == 10 == len(list(loader))
    for stages, why in (
        ((Numbers(10), KeepEven()), "toy.keep_even may drop samples"),
        ((Stream(),), "toy.stream is a stream"),
    ):
        with Pipeline("len", *stages) as loader, pytest.raises(TypeError, match=why):
            len(loader)
    with Pipeline("len", Numbers(10), on_error=Quarantine(1)) as loader:
        with pytest.raises(TypeError, match="quarantined"):
            len(loader)


def test_leaving_early_counts_what_was_prefetched_as_unused() -> None:
    with Pipeline("left", Numbers(100), Lists(4), epochs=3) as loader:
        for batch in loader:
            if batch[0] == 8:
                break
        assert batch == [8, 9, 10, 11]
        # the next iteration is the next epoch, whole and from its start
        assert [x for batch in loader for x in batch] == list(range(100))
        assert loader.epoch == 2
    ledger = loader.ledger
    ledger.check()
    assert ledger.delivered == 112
    assert ledger.unused == ledger.read - 112 > 0


def test_leaving_a_chunk_of_samples_early_counts_the_rest() -> None:
    with Pipeline("left", Numbers(2000, executor="inline"), Add(executor="inline")) as loader:
        for number, _ in enumerate(loader):
            if number == 777:
                break
    loader.ledger.check()
    assert loader.ledger.delivered == 778


def test_set_epoch_and_shuffle() -> None:
    pipeline = Pipeline("epochs", Numbers(30, shuffle=True), Lists(30))
    with pipeline as loader:
        orders = [next(iter(loader)) for _ in range(3)]
        loader.set_epoch(1)
        again = next(iter(loader))
    assert orders[0] != orders[1] != orders[2]
    assert again == orders[1]


def test_a_newer_iteration_ends_the_older_one() -> None:
    with Pipeline("two", Numbers(100), Lists(4)) as loader:
        first = iter(loader)
        next(first)
        second = iter(loader)
        next(second)
        with pytest.raises(UsageError, match="ended by a newer one"):
            next(first)
        assert len(list(second)) == 24
    with pytest.raises(UsageError, match="closed"):
        next(iter(loader))


@pytest.mark.parametrize("executor", ["inline", "thread"])
def test_an_error_comes_after_all_that_lies_before_it(executor: Any) -> None:
    pipeline = Pipeline(
        "error", Numbers(100, executor=executor), Add(fail_at=(9,), executor=executor), Lists(4)
    )
    got = []
    with pipeline as loader:
        with pytest.raises(SampleError, match=r"toy.add failed on sample '9' in memory") as caught:
            for batch in loader:
                got.append(batch)
    assert got == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert isinstance(caught.value.__cause__, ValueError)
    assert caught.value.key == "9"
    assert loader.ledger.failed == 1
    loader.ledger.check()


def test_a_read_error_names_the_address() -> None:
    with Pipeline("error", Numbers(10, fail_at=(3,)), Lists(2)) as loader:
        with pytest.raises(SampleError, match="toy.numbers failed on sample '3'.*cannot read 3"):
            list(loader)
    loader.ledger.check()


def test_B19_odd_errors_reach_the_caller_whole() -> None:
    class TwoArguments(Exception):
        def __init__(self, one: int, *, two: int) -> None:
            super().__init__(f"{one} and {two}")

    class Fails(Add):
        def apply(self, sample: Any, rng: Any) -> Any:
            raise TwoArguments(1, two=2)

    with Pipeline("odd", Numbers(4), Fails(), Lists(2)) as loader:
        with pytest.raises(SampleError, match="TwoArguments: 1 and 2") as caught:
            list(loader)
    cause = caught.value.__cause__
    assert isinstance(cause, TwoArguments)
    assert cause.__traceback__ is not None
    names = []
    trace: Any = cause.__traceback__
    while trace:
        names.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    assert "apply" in names


def test_a_forgotten_return_is_an_error_and_says_so() -> None:
    with Pipeline("forgot", Numbers(10), Add(forget_at=(5,)), Lists(2)) as loader:
        with pytest.raises(SampleError, match="'5'.*return the sample, or declare drops"):
            list(loader)
    loader.ledger.check()


def test_a_stage_that_returns_no_sample_is_told_what_to_do() -> None:
    with Pipeline("bare", Numbers(10), Add(bare=True), Lists(2)) as loader:
        with pytest.raises(SampleError, match="returned int.*augment.Apply"):
            list(loader)
    loader.ledger.check()


def test_quarantine_leaves_out_and_refills_and_stops_past_its_budget(tmp_path: Any) -> None:
    import json

    bad = Pipeline("q", Numbers(12, fail_at=(2,)), Add(fail_at=(3, 7)), Lists(3))
    with bad.with_options(on_error=Quarantine(3)) as loader:
        assert list(loader) == [[0, 1, 4], [5, 6, 8], [9, 10, 11]]
        assert loader.ledger.quarantined == 3
    loader.ledger.check()
    file = tmp_path / "quarantine.jsonl"
    loader = loader_module.Loader(bad.with_options(on_error=Quarantine(2)), quarantine=file)
    with loader, pytest.raises(QuarantineError, match=r"3 samples failed.*budget is 2"):
        list(loader)
    loader.ledger.check()
    records = [json.loads(line) for line in file.read_text().splitlines()]
    assert {record["key"] for record in records} == {"2", "3", "7"}
    assert records[0].keys() >= {"stage", "key", "shard", "offset", "error"}


def test_a_batch_that_cannot_be_made_is_judged_by_the_same_policy() -> None:
    bad = Pipeline("b", Numbers(8), Lists(2, fail_at=(3,)))
    with bad as loader, pytest.raises(SampleError, match="toy.lists failed on sample '2 … 3"):
        list(loader)
    loader.ledger.check()
    with bad.with_options(on_error=Quarantine(2)) as loader:
        assert list(loader) == [[0, 1], [4, 5], [6, 7]]
        assert loader.ledger.quarantined == 2
    loader.ledger.check()


def test_stages_are_opened_once_a_worker_and_always_closed() -> None:
    log: list[str] = []
    with Pipeline("opens", Numbers(50), Opens(log, num_workers=3), Lists(5)) as loader:
        list(loader)
        list(loader)
    assert sorted(log) == ["close"] * 3 + ["open"] * 3


@pytest.mark.parametrize("executor", ["inline", "thread"])
def test_a_stage_that_cannot_open_is_an_error_not_a_hang(executor: Any) -> None:
    pipeline = Pipeline("opens", Numbers(5), Opens([], fails=True, executor=executor), Lists(5))
    with pipeline as loader:
        with pytest.raises(RunError, match="worker of toy.opens could not start.*no decoder here"):
            list(loader)


@pytest.mark.parametrize("executor", ["inline", "thread"])
def test_sys_exit_in_a_stage_is_an_error_not_a_hang(executor: Any) -> None:
    class Exits(Add):
        def apply(self, sample: Any, rng: Any) -> Any:
            raise SystemExit(3)

    with Pipeline("exits", Numbers(5), Exits(executor=executor), Lists(5)) as loader:
        with pytest.raises(RunError, match="toy.add was ended by SystemExit: 3"):
            list(loader)
    loader.ledger.check()


def test_close_can_be_called_in_any_state_and_again() -> None:
    for state in ("never iterated", "mid epoch", "ended", "failed"):
        loader = Pipeline(state, Numbers(50, fail_at=(40,)), Add(), Lists(5)).loader()
        if state == "mid epoch":
            next(iter(loader))
        if state == "failed":
            with pytest.raises(SampleError):
                list(loader)
        loader.close()
        loader.close()
        assert ours() == []
        loader.ledger.check()


def test_losing_the_loader_ends_its_threads() -> None:
    loader = Pipeline("lost", Numbers(50), Add(), Lists(5)).loader()
    batches = iter(loader)
    next(batches)
    assert ours()
    del batches, loader
    gc.collect()


def test_what_does_not_return_on_close_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader_module, "CLOSE_TIMEOUT_S", 0.05)
    event, entered = threading.Event(), threading.Event()
    blocks = Blocks(event, entered, num_workers=1)
    loader = Pipeline("stuck", Numbers(5), blocks, Lists(5)).loader()
    batches = iter(loader)

    def interrupted(flow: Any) -> Any:
        assert entered.wait(10)
        raise KeyboardInterrupt

    monkeypatch.setattr(loader, "_next_job", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(batches)
    with pytest.warns(RuntimeWarning, match="toy.blocks.*blocks"):
        loader.close()
    event.set()


def test_B23_consumer_breaks_with_full_buffers_and_error_at_item_3() -> None:
    with Pipeline("full", Numbers(1000), Add(), Lists(1), prefetch_batches=2) as loader:
        for _ in loader:
            time.sleep(0.02)  # everything behind is full now
            break
    with Pipeline("third", Numbers(10, fail_at=(3,), num_workers=4), Lists(1)) as loader:
        got = []
        with pytest.raises(SampleError):
            for batch in loader:
                got += batch
        assert got == [0, 1, 2]


def test_S7_pools_of_one_and_two_iterations() -> None:
    one = {"num_workers": 1}
    pipeline = Pipeline("one", Numbers(10_000, **one), Add(1, **one), Lists(64, **one))
    with pipeline as loader:
        for _ in range(2):
            assert sum(len(batch) for batch in loader) == 10_000


def test_report_shows_every_stage_and_the_consumer() -> None:
    with Pipeline("report", Numbers(40), Add(sleep_s=0.001), Lists(4)) as loader:
        for _ in loader:
            time.sleep(0.002)
        report = loader.report()
    rows = {row.kind: row for row in report.stages}
    assert list(rows) == ["read", "augment", "collate", "pin", "copy", "consumer"]
    assert all(row.items == 40 for row in report.stages)
    sleeping = rows["augment"]
    assert sleeping.service_ms is not None
    assert sleeping.cpu_ms is not None
    assert sleeping.service_ms > 3 * sleeping.cpu_ms  # it sleeps, and does not compute
    assert rows["read"].output_wait_share > 0.5  # and holds the reader up
    assert report.ledger["balanced"]
    assert "toy.add" in str(report)
    assert report.to_dict()["stages"][0]["name"] == "toy.numbers"


def test_the_receiver_owns_its_batches() -> None:
    with Pipeline("own", Numbers(20), Lists(5)) as loader:
        kept = list(loader)
    assert kept == [list(range(i, i + 5)) for i in range(0, 20, 5)]


def test_no_warning_is_left_over() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Pipeline("quiet", Numbers(20), Lists(5)) as loader:
            list(loader)


@pytest.mark.parametrize("executor", ["inline", "thread"])
def test_closing_between_two_samples_accounts_for_the_rest(executor: Any) -> None:
    loader = Pipeline("samples", Numbers(100, executor=executor)).loader()
    samples = iter(loader)
    for _ in range(37):
        next(samples)
    loader.close()
    loader.ledger.check()
    assert loader.ledger.delivered == 37
    assert loader.state_dict()["position"] == 37
    del samples
    loader.ledger.check()
