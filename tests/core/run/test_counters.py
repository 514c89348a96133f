"""What a run counts, and that it goes on counting."""

from __future__ import annotations

import math

import pytest

from stoker.errors import CheckpointError
from stoker.run.counters import Counters
from stoker.session import StepOutcome


def counted(*batches: list[str]) -> Counters:
    counters = Counters()
    for keys in batches:
        counters.remember({"__key__": keys})
        counters.note(StepOutcome(len(keys), loss=0.1 * len(keys), updated=True))
    return counters


def test_the_order_is_that_of_all_samples() -> None:
    a, b, c = ["1", "2"], ["3"], ["4"]
    orders = [counted(*given).order for given in ([a, b, c], [b, a, c], [a, c], [c], [])]
    assert len(set(orders)) == len(orders)
    assert counted(a, b, c).order == counted(a, b, c).order
    assert counted(["2", "1"]).order != counted(a).order
    without = Counters()
    without.remember([1, 2])
    without.remember({"x": 3})
    assert without.order == b""


def test_counting_goes_on_from_a_state() -> None:
    whole, first, second = counted(["1"], ["2", "3"]), counted(["1"]), Counters()
    first.evaluations.append({"epoch": 0, "metrics": {"loss": 0.5}})
    first.note(StepOutcome(0, loss=math.nan))
    second.load_state_dict(first.state_dict())
    assert math.isnan(second.losses[-1])
    assert second.evaluations == first.evaluations
    second.remember({"__key__": ["2", "3"]})
    assert second.order == whole.order
    second.next_epoch()
    assert (second.epoch, second.closed, second.evaluated) == (1, False, False)


def test_S11_missing_counts_are_an_error() -> None:
    state = Counters().state_dict()
    del state["order"], state["losses"]
    with pytest.raises(CheckpointError, match="counters lack order, losses"):
        Counters().load_state_dict(state)


def test_time_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("stoker.run.counters.perf_counter", lambda: now[0])
    counters = Counters()
    now[0] = 2.0
    counters.tick()
    now[0] = 5.0
    counters.tick(training=True)
    now[0] = 6.0
    assert (counters.elapsed_s, counters.training_s, counters.elapsed_now_s) == (5.0, 3.0, 6.0)
