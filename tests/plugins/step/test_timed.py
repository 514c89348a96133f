"""step.timed, on a clock that only moves when it is slept on."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from stoker.parameters import faults
from stoker.plugins import host
from stoker.session import StepContext
from stoker.testing import check_stage
from stoker_plugins import precision, step
from stoker_plugins.step import timed


class Clock:
    """A clock whose sleeps may end early, as an interrupted one does."""

    def __init__(self, part: float = 1.0) -> None:
        self.now, self.part = 100.0, part
        self.sleeps: list[float] = []

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds if seconds < 1e-6 else seconds * self.part


@pytest.fixture
def clock(monkeypatch: Any) -> Clock:
    clock = Clock()
    monkeypatch.setattr(timed, "perf_counter", clock.perf_counter)
    monkeypatch.setattr(timed, "sleep", clock.sleep)
    return clock


def context() -> StepContext:
    return StepContext(torch.device("cpu"), 0, precision.Fp32())


@pytest.mark.parametrize(
    ("stage", "seconds"),
    [
        (step.Timed(80), 0.080),
        (step.Timed(step_ms=5, per_sample_ms=0.5), 0.007),
        (step.Timed(0, per_sample_ms=2), 0.008),
    ],
)
def test_it_takes_its_time_asleep(clock: Clock, stage: Any, seconds: float) -> None:
    with stage.open(context()) as session:
        for _ in range(3):
            outcome = session({"x": torch.zeros(4, 2)})
            assert (outcome.samples, outcome.updated, outcome.loss) == (4, False, None)
    assert clock.now - 100 == pytest.approx(3 * seconds)
    assert len(clock.sleeps) == 3


def test_a_sleep_that_ends_early_is_taken_up_again(clock: Clock) -> None:
    clock.part = 0.5
    with step.Timed(80).open(context()) as session:
        session([1, 2])
    assert clock.now - 100 == pytest.approx(0.080)
    assert len(clock.sleeps) > 1


def test_no_time_is_no_sleep(clock: Clock) -> None:
    with step.Timed(0).open(context()) as session:
        assert session([1, 2]).samples == 2
    assert clock.sleeps == []


def test_contract() -> None:
    check_stage(step.Timed(1))
    assert host().stage_class("step.timed") is step.Timed
    assert list(faults(step.Timed(-1.0))) == ["step_ms=-1.0: allowed is float of at least 0 (ms)"]
