"""Tracebacks without our frames."""

from __future__ import annotations

import traceback

import pytest

from stoker.watching.errors import without_our_frames
from stoker.watching.meter import DATASET, Meter
from stoker.watching.table import Table


def _fail() -> None:
    raise ValueError("bad")


def _fail_later() -> None:
    meter = Meter(Table.private())
    try:
        meter.call(DATASET, _fail, (), {})
    except ValueError as error:
        raise RuntimeError("worse") from error


@pytest.mark.parametrize("group", [False, True])
def test_only_the_persons_frames_are_left(group: bool) -> None:
    meter = Meter(Table.private())
    with pytest.raises(RuntimeError) as raised:
        meter.call(DATASET, _fail_later, (), {})
    error: BaseException = raised.value
    assert "meter.py" in "".join(traceback.format_exception(error))
    without_our_frames(ExceptionGroup("several", [raised.value]) if group else error)
    text = "".join(traceback.format_exception(error))
    assert "meter.py" not in text
    assert "in _fail_later" in text
    assert "in _fail\n" in text
    assert "direct cause" in text


def test_an_error_that_is_its_own_context_is_met_once() -> None:
    error = ValueError("round")
    error.__cause__ = error
    without_our_frames(error)
    assert error.__traceback__ is None
