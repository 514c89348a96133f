"""Analysing a loader by iterating it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from stoker.errors import UsageError
from stoker.watching import WatchReport, analyze_loader

from .loaders import Rows, loader


def test_epoch_after_epoch_with_a_sleep_as_the_step() -> None:
    report = analyze_loader(lambda: loader(Rows(8), batch_size=4), seconds=0.3, step_ms=20.0)
    assert isinstance(report, WatchReport)
    assert report.figures["epochs"] > 2
    step = next(row for row in report.stages if row.name == "step")
    assert step.time_ms is not None
    assert step.time_ms >= 20.0


def test_the_loader_itself_and_a_generator() -> None:
    assert analyze_loader([1, 2, 3], seconds=0.05).figures["epochs"] > 1

    def generated() -> Iterator[int]:
        for number in range(5):
            time.sleep(0.001)
            yield number

    assert analyze_loader(generated, seconds=5.0).figures["batches"] == 5


def test_a_loader_that_can_be_called_is_a_loader() -> None:
    class Called(list[Any]):
        def __call__(self) -> Any:
            raise AssertionError("it is no function that makes a loader")

    assert analyze_loader(Called([1, 2]), seconds=0.05).figures["batches"] >= 2


def test_no_batch_at_all() -> None:
    with pytest.raises(UsageError, match="gave no batch"):
        analyze_loader(list, seconds=0.1)
    with pytest.raises(UsageError, match="can be iterated"):
        analyze_loader(lambda: 3, seconds=0.1)  # type: ignore[arg-type,return-value]
