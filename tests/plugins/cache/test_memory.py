from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given

from stoker.cache import Fed
from stoker.measure.host import available_memory
from stoker.sample import nbytes
from stoker_plugins.cache import Memory
from stoker_plugins.cache import memory as memory_module
from stoker_plugins.cache.copies import frozen
from stoker_plugins.cache.memory import MemoryStore
from tests.plugins.cache.trees import same, samples

FED = Fed("", "")


@given(samples)
def test_what_is_kept_comes_back(sample: dict[str, Any]) -> None:
    store = MemoryStore(10**9)
    store.put(1, sample)
    kept = store.get(1)
    assert same(kept, sample)
    assert store.has(1)
    assert not store.has(2)
    assert store.get(2) is None


def test_nothing_that_others_do_changes_it() -> None:
    store = MemoryStore(10**9)
    array = np.zeros(3)
    given_: dict[str, Any] = {"x": array, "t": torch.zeros(3), "l": [1, {"a": 2}]}
    store.put("k", given_)
    array[:] = 1
    given_["t"] += 1
    given_["l"][1]["a"] = 9
    first: Any = store.get("k")
    with pytest.raises(ValueError, match="read-only"):
        first["x"][0] = 5
    first["t"] += 5
    first["l"].append(3)
    first["new"] = 1
    second: Any = store.get("k")
    assert same(second, {"x": np.zeros(3), "t": torch.zeros(3), "l": [1, {"a": 2}]})


def test_a_view_does_not_keep_what_it_looks_into() -> None:
    big = np.zeros((1000, 1000), np.uint8)
    store = MemoryStore(10**6)
    store.put(1, {"x": big[:10, :10]})
    kept: Any = store.get(1)
    assert kept["x"].base is None
    assert store.nbytes < 1000


def test_the_budget_holds_and_what_does_not_fit_passes() -> None:
    store = MemoryStore(10_500)
    for number in range(20):
        store.put(number, {"x": np.zeros(1000, np.uint8)})
    assert 5 < store.count < 10
    assert store.nbytes <= 10_500
    store.put("small", {"x": 1})
    assert store.has("small")  # smaller ones still find room
    held = sum(nbytes(store.get(n)) for n in range(store.count - 1))
    assert held <= store.nbytes


def test_two_workers_that_keep_one_sample_count_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore(10**6)
    store.put(1, {"x": b"abc"})
    size = store.nbytes
    store.put(1, {"x": b"abc"})
    met: list[str] = []

    def meeting(value: Any, where: str) -> Any:
        if not met:
            met.append(where)
            store.put(2, {"x": b"abc"})  # by another worker, while this one copies
        return frozen(value, where)

    monkeypatch.setattr(memory_module, "frozen", meeting)
    store.put(2, {"x": b"abc"})
    assert met
    assert (store.nbytes, store.count) == (2 * size, 2)


def test_what_python_needs_for_objects_counts_too() -> None:
    words = [f"word {number}" for number in range(1000)]
    store = MemoryStore(10**6)
    store.put(1, {"words": words, "ids": list(range(1000))})
    assert store.nbytes > sum(map(sys.getsizeof, words)) + 1000 * (8 + 28)


def test_what_goes_on_downstream_is_read_only_in_the_first_epoch_too() -> None:
    array = np.zeros(3)
    sample = {"x": array}
    MemoryStore(1).put(1, sample)  # kept or not
    with pytest.raises(ValueError, match="read-only"):
        sample["x"][0] = 1
    array[0] = 1  # its owner may change it
    assert sample["x"].base is array


def test_many_threads_never_exceed_the_budget() -> None:
    store = MemoryStore(200_000)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [
            threading.Thread(
                target=lambda k=k: [store.put((k, i), {"x": bytes(500)}) for i in range(200)]
            )
            for k in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert store.nbytes <= 200_000
    assert store.count == len([k for k in range(8) for i in range(200) if store.has((k, i))])
    assert store.count > 150


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (object(), "object"),
        ([{"a": {1, 2}}], "set"),
        ({object(): 1}, "object"),
        (bytearray(b"abc"), "bytearray"),
        (np.array([None]), "an array of object"),
        (np.zeros(2, [("a", "i4")])[0], "void"),  # a view of its array
        (np.ma.masked_array([1, 2], [True, False]), "MaskedArray of int64"),  # loses its mask
        (torch.nn.Parameter(torch.zeros(2)), "Parameter"),
        (torch.eye(2).to_sparse(), r"Tensor \(torch.sparse_coo"),
        (torch.zeros(2, device="meta"), r"Tensor \(.*, on meta"),
    ],
)
def test_what_cannot_be_kept_takes_no_room(value: Any, named: str) -> None:
    store = MemoryStore(10**6)
    with pytest.raises(TypeError, match=f"field 'odd' holds {named}.* a cache cannot keep"):
        store.put(1, {"fine": np.zeros(9), "odd": value})
    assert (store.nbytes, store.count) == (0, 0)
    store.put(1, {"fine": np.zeros(9)})
    assert store.count == 1


def test_the_ranks_of_a_machine_share_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert Memory().budget() == pytest.approx(available_memory() / 8, rel=0.2)
    assert Memory(max_bytes=5).budget() == 5
    for odd in ("", "0", "many"):
        monkeypatch.setenv("LOCAL_WORLD_SIZE", odd)
        assert Memory().budget() == pytest.approx(available_memory() / 2, rel=0.2)


def test_without_a_budget_it_is_a_share_of_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert Memory(max_bytes=5).budget() == 5
    assert Memory().budget() == pytest.approx(available_memory() / 2, rel=0.2)
    store = Memory(max_bytes=10**6).store(FED)
    store.put(1, {"x": 1})
    store.close()
    assert not store.has(1)
