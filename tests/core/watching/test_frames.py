"""What a thread is doing, from its innermost frame."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from stoker.watching.frames import callee, doing, operation_of, spot_of


def _here() -> FrameType:
    frame = sys._getframe(1)
    assert frame is not None
    return frame


class Person:
    def collate_rows(self) -> tuple[str, bool]:
        return spot_of(_here(), False)

    def loop(self) -> tuple[str, bool]:
        return spot_of(_here(), False)


def test_by_how_long_the_gil_was_waited_for() -> None:
    interval = sys.getswitchinterval()

    def called(waited_s: float) -> str:
        caller = _here().f_back
        assert caller is not None
        assert operation_of(caller.f_code, caller.f_lasti).startswith(("CALL", "PRECALL"))
        return doing(caller, waited_s, 0.0002)

    assert called(0.00005) == "released"
    assert called(0.4 * interval) == "held"
    assert called(interval + 0.0002) == "python"
    assert called(4.0 * interval) == "held"  # at a call: C code that kept it


@contextmanager
def _thread(target: Any) -> Iterator[int]:
    stop = threading.Event()
    thread = threading.Thread(target=target, args=(stop,))
    thread.start()
    try:
        assert thread.ident is not None
        yield thread.ident
    finally:
        stop.set()
        thread.join()


def _counting(stop: threading.Event) -> None:
    flag, count = stop._flag, 0  # type: ignore[attr-defined]
    while not flag:
        count += 1
        if not count % 1000:
            flag = stop.is_set()


def test_a_loop_in_python_is_seen_at_its_jumps() -> None:
    with _thread(_counting) as ident:
        seen = set()
        until = time.monotonic() + 5.0
        while "python" not in seen and time.monotonic() < until:
            time.sleep(0.001)
            frame = sys._current_frames()[ident]
            if frame.f_code is _counting.__code__:
                seen.add(doing(frame, 4.0 * sys.getswitchinterval(), 0.0002))
    assert "python" in seen


def test_spots_name_the_persons_function() -> None:
    text, collating = Person().loop()
    assert text.startswith("Person.loop (test_frames.py:")
    assert not collating
    assert Person().collate_rows()[1]


def test_a_librarys_function_is_named_beside_the_person_who_called_it() -> None:
    seen: list[tuple[str, bool]] = []

    def key(one: int) -> int:
        seen.append(spot_of(sys._getframe(0), False))
        return one

    import bisect

    bisect.bisect([1, 2], 1, key=key)
    assert seen[0][0].startswith("key (test_frames.py:")

    with _thread(lambda stop: stop.wait()) as ident:
        until = time.monotonic() + 5.0
        text = ""
        while "wait" not in text and time.monotonic() < until:
            text, _ = spot_of(sys._current_frames()[ident], True)
    assert "wait in " in text


@pytest.mark.parametrize(("name", "collating"), [("stack", True), ("unstacked", False)])
def test_what_is_called_is_read_from_the_source(name: str, collating: bool) -> None:
    class Library:
        @staticmethod
        def stack() -> tuple[str | None, tuple[str, bool]]:
            frame = _here().f_back
            assert frame is not None
            return callee(frame), spot_of(frame, True)

        unstacked = stack

    called, spot = Library.stack() if collating else Library.unstacked()
    assert called == f"Library.{name}"
    assert spot[1] is collating
    assert spot[0].startswith(f"Library.{name} in test_what_is_called")
