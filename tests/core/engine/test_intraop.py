"""Workers compute with one thread each, and nobody else's number changes."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

from stoker import Pipeline
from stoker.stages import Map
from toys import Lists, Numbers


class Asks(Map):
    """Notes how many threads torch would use."""

    name = "toy.asks"
    kind = "augment"

    def apply(self, sample: Any, rng: Any) -> Any:
        return {**sample, "x": torch.get_num_threads()}


def test_one_thread_in_workers_and_the_same_as_before_elsewhere() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with Pipeline("asks", Numbers(40), Asks(num_workers=3), Lists(40)) as loader:
            assert set(next(iter(loader))) == {1}
        assert torch.get_num_threads() == 3
        seen: list[int] = []
        thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        assert seen == [3]
    finally:
        torch.set_num_threads(before)


def test_inline_stages_keep_the_consumers_number() -> None:
    before = torch.get_num_threads()
    with Pipeline("asks", Numbers(4, executor="inline"), Asks(), Lists(4)) as loader:
        assert set(next(iter(loader))) == {before}


@pytest.mark.parametrize("value", ["0", "1"])
def test_malloc_thresholds_can_be_left_alone(value: str) -> None:
    import subprocess
    import sys

    code = "from stoker.engine.malloc import keep_freed_memory as k; print(k(), k())"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"STOKER_MALLOC": value}, capture_output=True, text=True
    )
    words = set(done.stdout.split())
    assert words == {"False"} if value == "0" else words in ({"True"}, {"False"})
