"""The simulation of a DataLoader against closed forms."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.watching.simulate import Job, soft_minimum


def job(**changes: object) -> Job:
    return Job([0.010], [0.002], 0, 2).changed(**changes)


def test_without_workers_loading_and_step_take_turns() -> None:
    assert job().rate() == pytest.approx(1 / 0.012)


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_workers_bind(workers: int) -> None:
    assert job(workers=workers).rate() == pytest.approx(workers / 0.010, rel=0.01)


def test_the_step_binds() -> None:
    assert job(workers=8).rate() == pytest.approx(1 / 0.002, rel=0.01)
    assert job(workers=8, receive_s=0.001).rate() == pytest.approx(1 / 0.003, rel=0.01)


def test_the_cores_bind() -> None:
    bound = job(workers=8, cpu_s=0.010, cores=2.0).rate()
    assert 0.9 * 200 < bound < 200
    assert job(workers=8, cpu_s=0.001, cores=2.0).rate() == pytest.approx(500, rel=0.01)


def test_a_slow_batch_holds_the_others_up_unless_order_may_change() -> None:
    rare = job(services=[0.004] * 19 + [0.1], steps=[0.004], workers=4)
    assert rare.changed(in_order=False).rate() > 1.05 * rare.rate()
    assert rare.changed(prefetch=16).rate() > 1.05 * rare.rate()


def test_less_work_is_done_faster() -> None:
    less = job(workers=2, cpu_s=0.01, cores=2.0).cheaper(0.005, 0.004)
    assert less.services == pytest.approx([0.005])
    assert less.cpu_s == pytest.approx(0.006)
    assert job(workers=2).cheaper(1.0, 1.0).rate() > 0  # no more than all of it is saved


def test_a_soft_minimum_is_below_the_lowest_limit() -> None:
    assert soft_minimum(3.0, None) == pytest.approx(3.0)
    assert soft_minimum(3.0, 300.0) == pytest.approx(3.0)
    assert 2.7 < soft_minimum(3.0, 3.0) < 3.0
    assert soft_minimum(0.0, 3.0) == 0.0


@settings(max_examples=40, deadline=None)
@given(
    services=st.lists(st.floats(1e-4, 0.1), min_size=1, max_size=8),
    step=st.floats(0.0, 0.05),
    workers=st.integers(1, 6),
    prefetch=st.integers(1, 4),
)
def test_in_order_more_in_flight_is_never_slower(
    services: list[float], step: float, workers: int, prefetch: int
) -> None:
    base = Job(services, [step], workers, prefetch)
    assert base.changed(prefetch=prefetch + 1).rate() >= 0.999 * base.rate()
