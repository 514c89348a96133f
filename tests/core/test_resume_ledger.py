"""Exact resume: the ledger of the pieces is that of the unbroken run, whatever the data does."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from stoker import Pipeline, Quarantine
from stoker.engine.ledger import Ledger
from stoker.errors import SampleError
from stoker.rng import Rng
from stoker.stages import Stage
from toys import Add, Copies, KeepEven, Lists, Numbers, Stream

EPOCHS = 2
Given = list[tuple[int, Any]]


@dataclass(frozen=True)
class Changing(Numbers):
    """Has other lengths in later epochs."""

    by: int = 0

    def addresses(self, epoch: int, rng: Rng) -> Sequence[int]:
        return range(self.n + self.by * epoch)


def deliver(pipeline: Pipeline, state: Any, stop: int | None) -> tuple[Given, Any, Ledger]:
    """Deliver so many, or up to the end; return them, the state then, and the ledger."""
    given: Given = []
    with pipeline as loader:
        if state is not None:
            loader.load_state_dict(json.loads(json.dumps(state)))
        while loader.epoch < EPOCHS and len(given) != stop:
            for one in loader:
                given.append((loader.epoch, one))
                if len(given) == stop:
                    break
            if len(given) == stop:
                break
        state = loader.state_dict()
    loader.ledger.check()
    return given, state, loader.ledger


def test_the_pieces_and_their_ledger(make: Callable[[], Pipeline]) -> None:
    whole, _, ledger = deliver(make(), None, None)
    for stop in range(1, len(whole)):
        first, state, _ = deliver(make(), None, stop)
        rest, _, last = deliver(make(), state, None)
        assert first + rest == whole, stop
        assert last == ledger, stop


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "make" not in metafunc.fixturenames:
        return
    gathers: dict[str, tuple[Stage, ...]] = {
        "samples": (),
        "keep": (Lists(5),),
        "drop": (Lists(7, drop_last=True),),
    }
    loads: dict[str, tuple[Stage, ...]] = {
        "growing": (Changing(12, by=10),),
        "shrinking": (Changing(22, by=-10),),
        "copies": (Numbers(23), Copies()),
        "copies-even": (Numbers(23), Copies(4), KeepEven()),
        "fails": (Numbers(23), Add(fail_at=(3, 8))),
        "broken": (Stream(6, 5, (1, 3)),),
        "broken-window": (Stream(6, 5, (1, 3), shuffle_window=7),),
        "window-of-all": (Stream(6, 5, (1, 3), shuffle_window=500),),
    }
    made = {
        f"{load}-{gather}": lambda stages=(*loads[load], *gathers[gather]): Pipeline(
            "pieces", *stages, epochs=EPOCHS, on_error=Quarantine(100)
        )
        for load in loads
        for gather in gathers
    }
    metafunc.parametrize("make", made.values(), ids=made.keys())


@pytest.mark.parametrize("stop", [5, 6, 7])
def test_a_broken_shard_ends_the_run_also_after_a_stop(stop: int) -> None:
    """Its failure lies between two samples, where it must not be passed by."""
    broken = Pipeline("broken", Stream(3, 5, (1,)))
    with broken as loader:
        samples = iter(loader)
        for _ in range(min(stop, 6)):
            next(samples)
        if stop == 7:
            with pytest.raises(SampleError, match="cut off"):
                next(samples)
        state = loader.state_dict()
    with broken as loader:
        loader.load_state_dict(state)
        with pytest.raises(SampleError, match="cut off"):
            list(loader)
