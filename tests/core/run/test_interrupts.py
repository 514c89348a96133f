"""Signals: an orderly end after the step, at once while waiting; the second one at once."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from stoker.run.interrupts import Interrupted, Interrupts


def send(number: int = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_in_a_step_lets_the_step_end(number: int) -> None:
    done: list[int] = []
    with Interrupts() as interrupts:
        with pytest.raises(Interrupted) as caught:
            for batch in interrupts.batches(range(5)):
                if batch == 2:
                    send(number)
                done.append(batch)
        assert interrupts.number == number
    assert done == [0, 1, 2]
    assert caught.value.exit_code == 128 + number
    assert not caught.value.at_once


def test_B58_a_signal_while_data_is_waited_for_ends_the_wait() -> None:
    never = threading.Event()

    def slow() -> Iterator[int]:
        yield 0
        threading.Timer(0.05, send).start()
        never.wait(30)
        yield 1

    begun = time.perf_counter()
    with Interrupts() as interrupts, pytest.raises(Interrupted):
        for _ in interrupts.batches(slow()):
            pass
    assert time.perf_counter() - begun < 20


def test_a_second_signal_ends_a_step_at_once() -> None:
    done = []
    with Interrupts() as interrupts:
        with pytest.raises(Interrupted) as caught:
            for _ in interrupts.batches(range(5)):
                send()
                done.append("first")
                send()
                done.append("second")
    assert done == ["first"]
    assert caught.value.at_once
    assert str(caught.value) == "interrupted by SIGTERM: at once, by a second signal"


def test_a_signal_before_the_first_batch_takes_none() -> None:
    taken = iter(range(5))
    with Interrupts() as interrupts:
        send(signal.SIGINT)
        with pytest.raises(Interrupted, match="Ctrl-C"):
            next(interrupts.batches(taken))
    assert next(taken) == 0


def test_handlers_are_put_back() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    mine = signal.getsignal(signal.SIGTERM)
    try:
        with Interrupts() as interrupts:
            assert signal.getsignal(signal.SIGTERM) is not mine
            send()
            assert heard == []
            assert interrupts.number == signal.SIGTERM
        assert signal.getsignal(signal.SIGTERM) is mine
        send()
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interrupts() as interrupts:
            send(signal.SIGINT)
            assert interrupts.number is None
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_outside_the_main_thread_nothing_is_touched() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen: list[object] = []

    def work() -> None:
        with Interrupts() as interrupts:
            seen.append(signal.getsignal(signal.SIGTERM))
            seen.append(list(interrupts.batches([1, 2])))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before, [1, 2]]


def test_a_batch_is_not_kept_alive_while_the_next_one_is_made() -> None:
    import weakref

    class Batch:
        pass

    living: list[bool] = []

    def source() -> Iterator[Batch]:
        first = Batch()
        seen = weakref.ref(first)
        yield first
        del first
        living.append(seen() is not None)

    with Interrupts() as interrupts:
        taken = interrupts.batches(source())
        next(taken)
        assert list(taken) == []
    assert living == [False]
