"""Observers that fail, and windows that add up."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from stoker import Pipeline
from stoker.errors import RunError
from stoker.loader import Loader
from stoker.observer import Observer
from stoker.run.recorder import Observers, Recorder
from toys import Add, Lists, Numbers


class Noting(Observer):
    """Keeps what it is told."""

    name = "noting"

    def __init__(self) -> None:
        self.told: list[Any] = []

    def on_window(self, window: Any) -> None:
        self.told.append(window)

    def on_end(self, result: Any) -> None:
        self.told.append(("end", result))


class Failing(Observer):
    """Raises at each window."""

    name = "failing"

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.calls = 0

    def on_window(self, window: Any) -> None:
        self.calls += 1
        raise self.error


class Nameless:
    """No observer at all."""


class Alike(Noting):
    """Says that it equals anything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


# -- observers -------------------------------------------------------------------------


def test_all_observers_are_told() -> None:
    one, two = Noting(), Noting()
    observers = Observers([one, two])
    observers.tell("on_window", {"steps": 1})
    observers.tell("on_end", {"steps": 2})
    observers.tell("on_evaluation", 0, {"accuracy": 1.0})
    assert one.told == two.told == [{"steps": 1}, ("end", {"steps": 2})]
    assert observers.faults == []


@pytest.mark.parametrize(
    ("error", "told"),
    [(ValueError("full"), "ValueError: full"), (SystemExit(3), "SystemExit: 3")],
)
def test_an_observer_that_fails_is_noted_once_and_left_out(error: BaseException, told: str) -> None:
    before, failing, after = Noting(), Failing(error), Noting()
    observers = Observers([before, failing, after])
    for step in range(3):
        observers.tell("on_window", {"steps": step})
    assert failing.calls == 1
    assert len(before.told) == len(after.told) == 3
    assert observers.faults == [f"observer failing: on_window: {told}"]


def test_what_is_no_observer_is_noted_and_left_out() -> None:
    observers = Observers([Nameless()])  # type: ignore[list-item]
    observers.tell("on_window", {})
    observers.tell("on_window", {})
    (fault,) = observers.faults
    assert fault.startswith("observer Nameless: on_window: AttributeError")


def test_the_one_that_failed_is_left_out_and_no_other_that_equals_it() -> None:
    alike, failing = Alike(), Failing(ValueError())
    observers = Observers([alike, failing])
    observers.tell("on_window", 1)
    observers.tell("on_window", 2)
    assert alike.told == [1, 2]
    assert failing.calls == 1


def test_an_interruption_is_no_fault_of_an_observer() -> None:
    observers = Observers([Failing(KeyboardInterrupt())])
    with pytest.raises(KeyboardInterrupt):
        observers.tell("on_window", {})


# -- the recorder ----------------------------------------------------------------------


def loader() -> Loader:
    return Loader(Pipeline("p", Numbers(40), Add(1), Lists(4)))


def recorders() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name == "stoker-recorder"]


def test_windows_add_up_to_the_run() -> None:
    windows: list[dict[str, Any]] = []
    with loader() as running:
        with Recorder(running, lambda: {"steps": 7}, windows.append, window_s=0.001):
            for _ in running:
                while not windows:  # the recorder's thread takes windows by itself
                    threading.Event().wait(0.001)
        assert recorders() == []
    assert len(windows) >= 2
    assert {window["event"] for window in windows} == {"window"}
    assert {window["steps"] for window in windows} == {7}
    items = {row["name"]: 0 for row in windows[0]["stages"]}
    for window in windows:
        for row in window["stages"]:
            items[row["name"]] += row["items"]
    assert items["toy.numbers"] == items["toy.add"] == items["consumer"] == 40
    assert windows[-1]["ledger"]["delivered"] == 40


def test_a_short_run_has_one_window() -> None:
    windows: list[dict[str, Any]] = []
    with loader() as running, Recorder(running, dict, windows.append, window_s=3600):
        assert len(list(running)) == 10
    assert len(windows) == 1
    assert windows[0]["window_s"] > 0


def full(window: Any) -> None:
    raise OSError(28, "No space left on device")


def test_measuring_that_fails_ends_the_run_with_a_reason_and_no_stray_trace() -> None:
    calls = []

    def tell(window: Any) -> None:
        calls.append(window)
        full(window)

    with loader() as running:
        with pytest.raises(RunError) as caught:
            with Recorder(running, dict, tell, window_s=0.001):
                for _ in running:
                    while not calls:
                        threading.Event().wait(0.001)
        assert recorders() == []
    assert str(caught.value) == "measuring stopped: OSError: [Errno 28] No space left on device"
    assert isinstance(caught.value.__cause__, OSError)
    assert len(calls) == 1, "what failed is not tried again"


def test_what_ended_the_run_is_told_and_not_that_measuring_failed_too() -> None:
    with loader() as running:
        with pytest.raises(ZeroDivisionError):
            with Recorder(running, dict, full, window_s=3600):
                for _ in running:
                    1 / 0
        assert recorders() == []
