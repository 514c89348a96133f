"""What comes out of processes is what comes out of threads: values, order, accounts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from stoker import Pipeline, Quarantine
from stoker.errors import QuarantineError
from toys import Add, Copies, Draw, KeepEven, Lists, Numbers, WithOther

from .stages import Arrays, Calls, Doubles, Notes, adds_a_lambda, noted


def delivered(pipeline: Pipeline, epochs: int = 1) -> tuple[list[Any], Any]:
    out = []
    with pipeline as loader:
        for _ in range(epochs):
            out += list(loader)
        ledger = loader.ledger
    ledger.check()
    return out, ledger


def alike(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, torch.Tensor):
        same = one.dtype == other.dtype and one.stride() == other.stride()
        return same and torch.equal(one, other)
    return bool(one == other)


def test_everything_comes_out_the_same_for_threads_and_processes() -> None:
    def pipeline(executor: Any, workers: int) -> Pipeline:
        how = {"executor": executor, "num_workers": workers}
        return Pipeline(
            "same",
            Numbers(23, shuffle=True, **how),
            Add(3, fail_at=(7,), **how),
            KeepEven(**how),
            Copies(**how),
            Lists(4, whole=True, **how),
            on_error=Quarantine(10),
            epochs=2,
            seed=3,
        )

    plain, reference = delivered(pipeline("inline", 1), 2)
    for executor, workers in (("thread", 1), ("thread", 2), ("process", 1), ("process", 2)):
        got, ledger = delivered(pipeline(executor, workers), 2)
        assert got == plain
        assert ledger == reference


def test_arrays_and_tensors_come_out_byte_for_byte() -> None:
    def pipeline(executor: Any, workers: int) -> Pipeline:
        how = {"executor": executor, "num_workers": workers}
        return Pipeline("bytes", Numbers(9), Arrays(tensors=True, **how), Draw(**how), seed=5)

    plain, _ = delivered(pipeline("inline", 1))
    got, _ = delivered(pipeline("process", 2))
    assert len(got) == 9
    assert all(alike(one, other) for one, other in zip(plain, got, strict=True))


def test_arrays_belong_to_who_received_them() -> None:
    with Pipeline("mine", Numbers(60), Arrays(executor="process", num_workers=1)) as loader:
        kept = [(sample["wide"], sample["wide"].copy()) for sample in loader]
        for array, _ in kept:
            assert array.flags.writeable
        assert all(np.array_equal(array, copy) for array, copy in kept)
        kept[0][0][:] = 0
        assert all(np.array_equal(array, copy) for array, copy in kept[1:])
    assert all(np.array_equal(array, copy) for array, copy in kept[1:])


def test_mix_and_read_in_processes() -> None:
    def pipeline(executor: Any) -> Pipeline:
        how = {"executor": executor, "num_workers": 1}
        return Pipeline(
            "mix",
            Numbers(12, shuffle=True),
            Add(1),
            WithOther(**how),
            Lists(5, whole=True),
            epochs=2,
        )

    assert delivered(pipeline("process"), 2) == delivered(pipeline("inline"), 2)


def test_batches_in_processes_and_a_batch_that_kills(tmp_path: Path) -> None:
    log = tmp_path / "log"
    pipeline = Pipeline(
        "batches",
        Numbers(12),
        Lists(3, executor="process"),
        Doubles(log=log, kill_at=4, executor="process"),
        on_error=Quarantine(3),
    )
    with pytest.warns(RuntimeWarning, match="was killed by SIGKILL in toy.doubles; its 3 samples"):
        got, ledger = delivered(pipeline)
    assert got == [[0, 2, 4], [12, 14, 16], [18, 20, 22]]
    assert noted(log) == ["kill", "kill"]
    assert (ledger.delivered, ledger.quarantined) == (9, 3)


def test_the_quarantine_has_one_budget_over_all_processes() -> None:
    def pipeline(budget: int) -> Pipeline:
        return Pipeline(
            "budget",
            Numbers(40),
            Add(fail_at=(3, 9, 21, 33), executor="process", num_workers=2),
            on_error=Quarantine(budget),
        )

    got, ledger = delivered(pipeline(4))
    assert [sample["x"] for sample in got] == [n for n in range(40) if n not in (3, 9, 21, 33)]
    assert ledger.quarantined == 4
    with pipeline(2) as loader:
        with pytest.raises(QuarantineError, match="3 samples failed, the quarantine's budget is 2"):
            list(loader)
        loader.ledger.check()
        assert loader.ledger.quarantined == 2


def test_a_sample_that_cannot_cross_fails_like_any_other() -> None:
    with Pipeline(
        "cross",
        Numbers(6),
        Calls(adds_a_lambda, executor="process", num_workers=1),
        on_error=Quarantine(1),
    ) as loader:
        assert [sample["x"] for sample in loader] == [0, 1, 3, 4, 5]
        loader.ledger.check()
        (record,) = loader.failures.records
    assert record["stage"] == "toy.calls"
    assert record["key"] == "2"
    assert "cannot hand it on" in str(record["error"])


def test_stages_are_opened_and_closed_in_the_child(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Pipeline("open", Numbers(4), Notes(log, executor="process", num_workers=2)) as loader:
        list(loader)
        row = next(row for row in loader.report().stages if row.name == "toy.notes")
        assert (row.items, row.executor, row.num_workers) == (4, "process", 2)
        assert loader.report().cpu_s > 0
        assert "(cpu, 2 processes)" in str(loader.plan)
    lines = noted(log)
    opened = sorted(line.split()[1] for line in lines if line.startswith("open"))
    assert opened == sorted(line.split()[1] for line in lines if line.startswith("close"))
    assert len(set(opened)) == 2
    assert all(line.endswith("process 2") for line in lines if line.startswith("open"))
