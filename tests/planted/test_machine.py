"""The simulated machine against closed formulas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from stoker.analyze.evidence import Evidence
from tests.planted.demands import Op, c, disk, lock, py, sleep
from tests.planted.job import Job
from tests.planted.machine import Machine
from tests.planted.parts import Batch, Segment, Stage, Step
from tests.planted.running import Run
from tests.planted.threads import Demand, Process, Thread

FAST = [Stage("read", "read", [c(0.02)])]


def decoding(ops: Sequence[Op], workers: int = 1, **settings: object) -> Job:
    """Return a job that reads at once, decodes, and takes 1 ms on a device for 16 samples."""
    segments = [Segment(FAST), Segment([Stage("decode", "decode", ops)], workers)]
    return replace(Job(segments, Batch(16)), **settings)  # type: ignore[arg-type]


def rate_per_s(job: Job) -> float:
    """Return what comes out of the sample section, free of the batches' grain."""
    run = Run(job)
    run.start()
    run.machine.run_until(run.machine.now_ns + 1_000_000_000)
    before = run.snapshot()
    run.machine.run_until(run.machine.now_ns + 4_000_000_000)
    made = run.snapshot().stages["decode"] - before.stages["decode"]
    return made.items_out / 4


def busy_share(evidence: Evidence, segment: int) -> float:
    """Return the share of the workers' time that a segment's stages took."""
    spent = total = 0.0
    for window in evidence.windows:
        rows = [row for row in window.stages if row.segment == segment]
        for row in rows:
            if row.service_ms is not None:
                spent += row.items * (row.service_ms + (row.runqueue_ms or 0.0)) / 1e3
        total += window.window_s * rows[0].num_workers
    return spent / total


def wait_shares(evidence: Evidence, segment: int) -> tuple[float, float]:
    """Return the shares of the workers' time spent on waits for input and for output."""
    rows = [row for w in evidence.windows for row in w.stages if row.segment == segment]
    lengths = [w.window_s for w in evidence.windows for row in w.stages if row.segment == segment]
    given = sum(row.data_wait_share * s for row, s in zip(rows, lengths, strict=True))
    taken = sum(row.output_wait_share * s for row, s in zip(rows, lengths, strict=True))
    return given / sum(lengths), taken / sum(lengths)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_sleeping_workers_do_not_need_cores(workers: int) -> None:
    assert rate_per_s(decoding([sleep(20)], workers, cores=1)) == pytest.approx(
        workers / 0.020, rel=0.02
    )


@pytest.mark.parametrize("jitter", [0.0, 0.3])
def test_two_workers_of_c_code_use_two_cores(jitter: float) -> None:
    assert rate_per_s(decoding([c(4, jitter)], 2)) == pytest.approx(2 / 0.004, rel=0.03)


def test_python_in_two_threads_is_bound_by_the_gil() -> None:
    assert rate_per_s(decoding([py(4)], 2, cores=4)) == pytest.approx(1 / 0.004, rel=0.02)


def test_four_workers_share_two_cores() -> None:
    assert rate_per_s(decoding([c(4)], 4)) == pytest.approx(2 / 0.004, rel=0.02)


def test_a_mutex_lets_one_in_at_a_time() -> None:
    job = decoding([lock("table", 4), sleep(6)], 4, cores=4)
    assert rate_per_s(job) == pytest.approx(1 / 0.004, rel=0.02)
    assert rate_per_s(decoding([lock("table", 4), sleep(36)], 4, cores=4)) == pytest.approx(
        4 / 0.040, rel=0.05
    )


def test_a_batch_stage_binds() -> None:
    job = decoding([c(0.1)], batch=Batch(16, [sleep(50)]))
    assert rate_per_s(job) == pytest.approx(16 / 0.050, rel=0.06)


def test_the_step_binds_and_never_waits() -> None:
    evidence = decoding([c(0.1)], step=Step([sleep(50)])).measure(4, 1)
    given, _ = wait_shares(evidence, 3)
    assert given < 0.001
    assert evidence.throughput.value == pytest.approx(16 / 0.050, rel=0.02)
    assert evidence.step_alone is not None
    assert evidence.step_alone.value == pytest.approx(16 / 0.050, rel=0.03)
    assert evidence.loader_alone is not None
    assert evidence.loader_alone.value > 5 * evidence.throughput.value
    assert wait_shares(evidence, 1)[1] > 0.8


@pytest.mark.parametrize(
    ("ops", "workers"),
    [([sleep(7)], 2), ([c(3), py(1)], 3), ([c(3)], 6), ([disk(2), lock("a", 1)], 4)],
)
def test_work_and_waits_fill_every_workers_time(ops: Sequence[Op], workers: int) -> None:
    evidence = decoding(ops, workers, step=Step([sleep(30)])).measure(4, 1)
    for segment in range(3):
        shares = (busy_share(evidence, segment), *wait_shares(evidence, segment))
        # The engine's own time, and items under way at the ends, belong to no stage.
        assert sum(shares) == pytest.approx(1.0, abs=0.03)


def test_waiting_for_a_core_shows_where_cores_are_short() -> None:
    short = decoding([c(4)], 4).measure(4, 1)
    plenty = decoding([c(4)], 4, cores=8).measure(4, 1)
    for window in short.windows:
        row = window.stages[1]
        assert row.service_ms == pytest.approx(4, rel=0.05)
        assert row.cpu_ms == pytest.approx(4, rel=0.05)
        assert row.runqueue_ms == pytest.approx(4, rel=0.1)
    for window in plenty.windows:
        assert window.stages[1].runqueue_ms == pytest.approx(0, abs=0.02)
    assert short.host.pressure == pytest.approx(1, abs=0.02)
    assert plenty.host.pressure == pytest.approx(0, abs=0.02)


def test_other_processes_take_their_fair_share() -> None:
    evidence = decoding([c(5)], 2, others=[[c(10)], [c(10)]]).measure(4, 1)
    assert evidence.host.own == pytest.approx(1.0, rel=0.03)
    assert evidence.host.others == pytest.approx(1.0, rel=0.03)
    assert evidence.throughput.value == pytest.approx(1 / 0.005, rel=0.1)


def test_other_processes_have_a_gil_of_their_own() -> None:
    job = decoding([py(4)], 1, cores=2, others=[[py(10)]])
    assert rate_per_s(job) == pytest.approx(1 / 0.004, rel=0.02)


def test_a_thread_that_slept_is_not_owed_the_time() -> None:
    machine = Machine(1)
    early, late = Thread(Process()), Thread(Process())

    def work() -> Iterator[Demand]:
        while True:
            yield Demand("c", 1_000_000)

    def sleep_and_work() -> Iterator[Demand]:
        yield Demand("block", 2_000_000_000, "sleep")
        yield from work()

    machine.start(early, work())
    machine.start(late, sleep_and_work())
    machine.run_until(machine.now_ns + 4_000_000_000)
    assert early.cpu_ns == pytest.approx(3e9, rel=0.02)
    assert late.cpu_ns == pytest.approx(1e9, rel=0.02)


def test_python_elsewhere_costs_a_switch_interval_each_time() -> None:
    machine, process = Machine(2), Process()
    decoder, hog = Thread(process), Thread(process)

    def work(kind: str, ns: int) -> Iterator[Demand]:
        while True:
            yield Demand(kind, ns)

    machine.start(decoder, work("c", 1_000_000))
    machine.start(hog, work("py", 1_000_000_000))
    machine.run_until(machine.now_ns + 3_000_000_000)
    # 1 ms of work, then 5 ms until the hog is asked to let go.
    assert decoder.cpu_ns == pytest.approx(3e9 / 6, rel=0.02)
    assert machine.gil_held_ns(process) == pytest.approx(3e9, rel=0.01)


def test_samples_tell_what_a_worker_does_at_work() -> None:
    evidence = decoding([sleep(14), c(6)], 3, cores=3).measure(8, 1)
    assert evidence.causes[1]["sleep"] == pytest.approx(0.7, abs=0.05)
    assert evidence.causes[1]["running"] == pytest.approx(0.3, abs=0.05)
    together = Segment([*FAST, Stage("decode", "decode", [py(4)])], 2)
    waiting = Job([together], Batch(16), cores=4).measure(8, 1)
    assert waiting.causes[0]["gil"] == pytest.approx(0.5, abs=0.05)
    assert waiting.gil_holders["decode"] > 0.9
    assert waiting.gil_busy == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("seed", range(3))
def test_every_sample_has_one_fate_and_keeps_its_place(seed: int) -> None:
    decode = Segment([Stage("decode", "decode", [c(0.4, 0.8), py(0.1, 0.5)])], 3)
    job = Job([Segment(FAST, 2), decode], Batch(7, workers=2), samples=1000, prefetch_bytes=10**7)
    run = Run(job, seed)
    run.start()
    run.machine.run_until(run.machine.now_ns + 3_000_000_000)
    assert run.over
    assert run.delivered == list(range(1000 // 7 * 7))
    assert run.ledger.balanced
    assert run.ledger.read == 1000
    assert run.ledger.dropped_tail == 1000 % 7
    assert run.flow.peak_bytes <= 10**7


def test_nothing_is_lost_in_the_middle() -> None:
    run = Run(decoding([c(0.7, 0.5), lock("a", 0.2)], 3))
    run.start()
    run.machine.run_until(run.machine.now_ns + 1_234_567_890)
    run.flow.cancel()
    run.flow.settle()
    assert run.ledger.delivered > 300
    assert run.ledger.unused > 0
    # Chunks that were never read have no fate.
    assert run.ledger.balanced


def test_the_seed_alone_decides() -> None:
    job = decoding([c(4, 0.3), sleep(2, 0.3)], 3)
    assert job.measure(2, 1, seed=5) == job.measure(2, 1, seed=5)
    assert job.measure(2, 1, seed=5) != job.measure(2, 1, seed=6)
