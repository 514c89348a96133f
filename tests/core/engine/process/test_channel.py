"""Messages between two ends: shared slots are used again, bounded, and never overwritten."""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from stoker.engine.process.channel import Channel, UnreadableError

KB = 1 << 10


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    one, other = socket.socketpair()
    made = Channel(one, 1024 * KB), Channel(other, 1024 * KB)
    yield made
    for end in made:
        end.close()


def sent(ends: tuple[Channel, Channel], thing: Any) -> Any:
    ends[0].send(thing)
    return ends[1].receive()


def test_slots_are_used_again_once_nobody_looks(ends: tuple[Channel, Channel]) -> None:
    for number in range(50):
        got = sent(ends, np.full(100 * KB, number, np.uint8))
        assert (got == number).all()
        del got
        ends[1].send(None)
        assert ends[0].receive() is None
    assert len(ends[0]._slots._sizes) <= 2


def test_what_is_kept_stays_and_goes_past_the_bound_as_copies(
    ends: tuple[Channel, Channel],
) -> None:
    kept = []
    for number in range(40):
        kept.append(sent(ends, np.full(100 * KB, number, np.uint8)))
        ends[1].send(None)
        ends[0].receive()
    assert all((array == number).all() for number, array in enumerate(kept))
    assert sum(ends[0]._slots._sizes.values()) <= 2048 * KB
    kept.clear()
    gc.collect()


def test_views_outlive_the_channel() -> None:
    one, other = socket.socketpair()
    ends = Channel(one, 1024 * KB), Channel(other, 1024 * KB)
    got = sent(ends, np.arange(100 * KB))
    for end in ends:
        end.close()
    del ends
    gc.collect()
    assert (got == np.arange(100 * KB)).all()


def test_a_slot_that_no_longer_fits_is_given_up(ends: tuple[Channel, Channel]) -> None:
    for size in (900, 700, 1200, 1900, 100):
        got = sent(ends, np.ones(size * KB, np.uint8))
        assert got.sum() == size * KB
        del got
        ends[1].send(None)
        ends[0].receive()
    assert ends[1]._views._slots.keys() == ends[0]._slots._sizes.keys()


def test_a_message_larger_than_all_slots_crosses(ends: tuple[Channel, Channel]) -> None:
    import threading

    big = np.arange(500 * KB)
    sender = threading.Thread(target=ends[0].send, args=(big,))
    sender.start()
    assert np.array_equal(ends[1].receive(), big)
    sender.join()


class _Nothing:
    def __reduce__(self) -> Any:
        return int, ("no number",)


def test_what_cannot_be_made_here_leaves_the_channel_in_order(
    ends: tuple[Channel, Channel],
) -> None:
    with pytest.raises(UnreadableError, match="ValueError"):
        sent(ends, _Nothing())
    assert sent(ends, "next") == "next"


def test_the_end_of_the_other_side_is_noticed(ends: tuple[Channel, Channel]) -> None:
    ends[0].close()
    with pytest.raises(EOFError):
        ends[1].receive()
    with pytest.raises(EOFError):
        ends[1].send("anybody")
