"""The order and every byte are the same for any number and kind of workers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker import Pipeline
from tests.faults.scale import scaled
from tests.faults.stages import Crop
from toys import Lists, Numbers, Stream

INLINE = ("inline", 1)
WAYS = [INLINE, ("thread", 1), ("thread", 2), ("thread", 4), ("process", 1), ("process", 2)]


def made(way: tuple[Any, int], kind: str = "indexed", n: int = 40, **more: Any) -> Pipeline:
    how: dict[str, Any] = {"executor": way[0], "num_workers": way[1]}
    source: Any = Numbers(n, shuffle=more.pop("shuffle", True))
    if kind != "indexed":
        source = Stream(max(n // 6, 1), 6, shuffle_window=5 if kind == "windowed" else 0)
    gather = Lists(more.pop("batch", 4), more.pop("drop_last", False), whole=True)
    return Pipeline("order", source, Crop(**how), gather, epochs=2, seed=9)


def flat(batches: list[Any]) -> list[tuple[Any, ...]]:
    return [(s["__key__"], s["drawn"], s["image"].tobytes()) for batch in batches for s in batch]


def test_order_and_bytes_are_identical_for_all_workers() -> None:
    results = []
    for way in WAYS:
        with made(way) as loader:
            results.append([flat(list(loader)) for _ in range(2)])
    assert len(results[0][0]) == 40
    assert all(result == results[0] for result in results[1:])


@pytest.mark.slow
@settings(max_examples=scaled(5, 50), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    kind=st.sampled_from(["indexed", "stream", "windowed"]),
    n=st.integers(1, 60),
    batch=st.integers(1, 9),
    shuffle=st.booleans(),
    drop_last=st.booleans(),
    ways=st.lists(st.sampled_from(WAYS[2:]), min_size=1, max_size=2),
    stops=st.lists(st.integers(0, 80), max_size=3),
)
def test_resume_is_exact_with_processes(
    kind: str,
    n: int,
    batch: int,
    shuffle: bool,
    drop_last: bool,
    ways: list[tuple[Any, int]],
    stops: list[int],
) -> None:
    settings_: dict[str, Any] = {
        "kind": kind,
        "n": n,
        "shuffle": shuffle,
        "batch": batch,
        "drop_last": drop_last and n > batch,
    }
    with made(INLINE, **settings_) as loader:
        whole = [flat(list(loader)) for _ in range(2)]
    pieces: list[list[Any]] = [[], []]
    state, given_ = None, 0
    for number, stop in enumerate([*sorted(stops), None]):
        # Processes in every other piece at least.
        way = ways[number % len(ways)] if number % 2 else ("process", 1 + number % 3 % 2)
        with made(way, **settings_) as loader:
            if state is not None:
                loader.load_state_dict(json.loads(state))
            stopped = False
            while loader.epoch < 2 and not stopped and given_ != stop:
                epoch = loader.epoch
                for some in loader:
                    pieces[epoch] += flat([some])
                    given_ += 1
                    if given_ == stop:
                        stopped = True
                        break
            state = json.dumps(loader.state_dict())
    assert pieces == whole
