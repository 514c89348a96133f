from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

from stoker.analyze.simulation import Layout, Simulated, Station, Work, simulate

FREE = Station("step", 1, [Work(0.0, 0.0)])


def layout(*samples: Station, **changes: Any) -> Layout:
    given: dict[str, Any] = {"consumer": FREE, "batch_size": 8, "cores": 64}
    return Layout(samples, **{**given, **changes})


def station(name: str, workers: int, ms: float, blocked: float = 0.0) -> Station:
    return Station(name, workers, [Work(ms, blocked)])


def run(*samples: Station, batches: int = 100, **changes: Any) -> Simulated:
    return simulate(layout(*samples, **changes), batches)


# -- against closed formulas ---------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("chunk_size", [1, 4, 8])
def test_one_station_lets_n_over_service_through(workers: int, chunk_size: int) -> None:
    found = run(station("decode", workers, 3.0, 1.0), chunk_size=chunk_size)
    assert found.throughput == pytest.approx(workers * 1e3 / 4.0, rel=0.02)
    assert found.occupied["decode"] == pytest.approx(1.0, abs=0.01)
    assert found.cores == pytest.approx(workers * 3 / 4, rel=0.02)


def test_cores_are_shared_alike_and_bind_all_together() -> None:
    found = run(station("read", 4, 1.0), station("decode", 4, 3.0), cores=2)
    assert found.throughput == pytest.approx(2 * 1e3 / 4.0, rel=0.02)
    assert found.cores == pytest.approx(2.0, abs=0.01)


def test_blocked_time_needs_no_core() -> None:
    assert run(station("read", 10, 0.0, 20.0), cores=1).throughput == pytest.approx(500, rel=0.02)


def test_a_slow_consumer_is_never_kept_waiting() -> None:
    found = run(station("decode", 2, 1.0), consumer=Station("step", 1, [Work(0, 50.0)]))
    assert found.throughput == pytest.approx(8 * 1e3 / 50.0, rel=0.02)
    assert found.waits == pytest.approx(0.0, abs=0.01)


def test_a_slow_loader_makes_the_consumer_wait() -> None:
    found = run(station("decode", 1, 5.0), consumer=Station("step", 1, [Work(0, 10.0)]))
    assert found.throughput == pytest.approx(200, rel=0.02)
    assert found.waits == pytest.approx(0.75, abs=0.02)


@pytest.mark.parametrize("window", [1, 2, 5])
@pytest.mark.parametrize("rates", [(1.0, 1.0), (1.0, 2.0), (3.0, 1.0)])
def test_two_stations_in_a_closed_network_meet_gordon_and_newell(
    window: int, rates: tuple[float, float]
) -> None:
    """Exponential service and so many chunks that circulate: a product form, known exactly."""
    draw = random.Random(5)
    first, second = rates
    found = simulate(
        layout(
            *(
                Station(name, 1, [Work(0.0, draw.expovariate(rate)) for _ in range(12_011)])
                for name, rate in (("a", first), ("b", second))
            ),
            batch_size=1,
            window=window,
            prefetch_batches=10**6,  # the consumer holds nothing back
        ),
        batches=12_000,
    )
    if first == second:
        expected = first * window / (window + 1)
    else:
        above = first**window - second**window
        expected = first * second * above / (first ** (window + 1) - second ** (window + 1))
    assert found.throughput / 1e3 == pytest.approx(expected, rel=0.04)


# -- what bounds do not see ------------------------------------------------------------------


def test_removing_one_of_two_that_share_workers_doubles_and_of_two_that_do_not_nearly_nothing() -> (
    None
):
    decode, augment = Work(0, 10.0), Work(0, 9.8)
    together = Station("both", 1, [Work(0, decode.blocked_ms + augment.blocked_ms)])
    left = Station("both", 1, [augment])
    assert run(left).throughput / run(together).throughput == pytest.approx(2.0, rel=0.03)
    apart = run(Station("decode", 1, [decode]), Station("augment", 1, [augment]))
    assert run(Station("augment", 1, [augment])).throughput / apart.throughput == pytest.approx(
        1.02, abs=0.01
    )


def test_in_order_a_slow_sample_holds_all_behind_it_up_until_the_window_is_deeper() -> None:
    works = [Work(0, 80.0 if i % 50 == 7 else 2.0) for i in range(50)]
    slow = Station("decode", 4, works)
    tight = run(slow, window=8)
    deep = run(slow, window=128, batches=800)
    free = run(slow, window=8, in_order=False)
    best = 4 * 50 / (80 + 49 * 2.0) * 1e3
    assert tight.throughput < 0.75 * best
    assert deep.throughput == pytest.approx(best, rel=0.05)
    assert free.throughput > 1.1 * tight.throughput


def test_a_stall_of_a_shard_is_covered_by_as_much_as_lies_ready() -> None:
    """500 ms at each 500th sample; a step of 40 ms a batch lives on what is in flight meanwhile."""
    works = [Work(0, 500.0 if i % 500 == 0 else 1.0) for i in range(500)]
    step = Station("step", 1, [Work(0, 40.0)])
    small = run(Station("read", 1, works), batch_size=16, consumer=step, batches=400)
    large = run(
        Station("read", 1, works), batch_size=16, consumer=step, prefetch_batches=20, batches=400
    )
    covered = (64 + 2 * 16) / 16 * 40.0  # ms that chunks and batches in flight last
    assert small.waits == pytest.approx((500 - covered) / (1250 + 500 - covered), abs=0.02)
    assert large.waits < 0.02


def test_what_is_behind_the_gather_takes_its_time_a_batch() -> None:
    found = run(station("decode", 4, 1.0), batches=100)
    copied = dataclasses.replace(
        layout(station("decode", 4, 1.0)), batches=[Station("copy", 1, [Work(0, 16.0)])]
    )
    assert found.throughput == pytest.approx(4000, rel=0.03)
    assert simulate(copied, 100).throughput == pytest.approx(500, rel=0.03)


def test_the_same_layout_gives_the_same_figures() -> None:
    made = layout(station("read", 2, 1.0, 3.0), station("decode", 3, 2.0), cores=2)
    assert simulate(made, 50) == simulate(made, 50)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"samples": [Station("decode", 0, [Work(1)])]}, "decode needs a worker"),
        ({"samples": [Station("decode", 1, [])]}, "decode needs a worker"),
    ],
)
def test_what_cannot_be_simulated_is_refused(changed: dict[str, Any], message: str) -> None:
    made = dataclasses.replace(layout(station("decode", 1, 1.0)), **changed)
    with pytest.raises(ValueError, match=message):
        simulate(made)
    with pytest.raises(ValueError, match="batches=1"):
        simulate(layout(station("decode", 1, 1.0)), batches=1)
