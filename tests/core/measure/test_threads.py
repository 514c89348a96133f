"""Times of single threads, read from outside."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from stoker.measure import threads
from stoker.measure.threads import ThreadTime, thread_time

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def times_of(thread: threading.Thread) -> ThreadTime:
    assert thread.ident is not None
    assert thread.native_id is not None
    return thread_time(thread.ident, thread.native_id)


def burn(nanoseconds: int) -> None:
    end = time.thread_time_ns() + nanoseconds
    while time.thread_time_ns() < end:
        sum(range(100))


@linux_only
def test_the_clock_of_a_thread_is_its_own() -> None:
    burn(2_000_000)
    before = time.thread_time_ns()
    told = times_of(threading.current_thread()).cpu_ns
    assert told is not None
    assert before <= told <= time.thread_time_ns()


@linux_only
def test_another_threads_work_is_not_ours() -> None:
    done, leave = threading.Event(), threading.Event()

    def work() -> None:
        burn(3_000_000)
        done.set()
        leave.wait()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        done.wait()
        told = times_of(thread).cpu_ns
        assert told is not None
        assert told >= 3_000_000
        time.sleep(0.01)
        again = times_of(thread).cpu_ns
        assert again is not None
        assert again - told < 3_000_000, "a waiting thread burns nothing"
    finally:
        leave.set()
        thread.join()


def test_a_thread_that_ended_is_unknown_and_not_zero() -> None:
    ended = [threading.Thread(target=int) for _ in range(30)]
    for thread in ended:
        thread.start()
    for thread in ended:
        thread.join()
    # join() returns a moment before the system is done with a thread.
    deadline = time.monotonic() + 5
    while any(times_of(t) != ThreadTime(None, None) for t in ended) and time.monotonic() < deadline:
        time.sleep(0.001)
    assert {times_of(thread) for thread in ended} == {ThreadTime(None, None)}
    assert thread_time(0, 2**22 + 7) == ThreadTime(None, None)


@linux_only
def test_time_in_the_run_queue_is_read_where_the_kernel_tells_it() -> None:
    told = times_of(threading.current_thread()).runqueue_ns
    if Path(f"/proc/self/task/{threading.get_native_id()}/schedstat").exists():
        assert told is not None
        assert told >= 0
    else:
        assert told is None


@pytest.mark.parametrize("content", ["", "123", "123 x 5", None], ids=repr)
def test_what_the_kernel_does_not_tell_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    file = tmp_path / "schedstat"
    if content is not None:
        file.write_text(content)
    monkeypatch.setattr(threads, "Path", lambda _: file)
    assert times_of(threading.current_thread()).runqueue_ns is None
    file.write_text("123 456 7\n")
    assert times_of(threading.current_thread()).runqueue_ns == 456


def test_the_main_thread_is_a_thread_too() -> None:
    assert threading.main_thread().native_id == os.getpid()
    assert times_of(threading.main_thread()).cpu_ns is not None or sys.platform != "linux"
