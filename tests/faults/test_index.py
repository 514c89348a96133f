"""An index that all workers share, through the engine's own process workers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench.index_data import shards

from stoker import Pipeline
from stoker_plugins import read
from tests.faults.scale import scaled
from tests.faults.stages import children

KEYS = scaled(200_000, 1_000_000)
READS = scaled(20_000, 200_000)
EPOCHS = 3
WARM = 5_000


@pytest.mark.slow
def test_B24_process_workers_hold_no_index_of_their_own(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    made, pattern = shards(tmp_path, KEYS)
    index_nbytes = sum(one.nbytes for one in made)
    how: dict[str, Any] = {"executor": "process", "num_workers": 2}
    others = children()
    private: list[int] = []
    with Pipeline("index", read.WebDataset(pattern, shuffle=True, **how)) as loader:
        for reads in (WARM, *[READS] * EPOCHS):
            seen = set()
            for number, sample in enumerate(loader, 1):
                seen.add(sample["__key__"])
                if number == reads:
                    break
            assert len(seen) == reads
            workers = children() - others
            assert len(workers) == 2
            private.append(max(worker.memory_full_info().uss for worker in workers))
    grown = max(private[1:]) - private[0]
    record_property("index, bytes", index_nbytes)
    record_property("private of a worker, MiB", [round(one / 2**20, 1) for one in private])
    record_property("growth over three epochs, bytes a key", round(grown / KEYS, 3))
    # A copy would be all of the index, and names or offsets made into objects several times it.
    assert grown < index_nbytes / 4
