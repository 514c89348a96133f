"""Children that die, fall silent, or fail: noticed, done again once, told in full."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from stoker import Pipeline, Quarantine
from stoker.errors import RunError, SampleError
from stoker.loader import Loader
from toys import Add, Lists, Numbers

from .stages import (
    Calls,
    Kills,
    Notes,
    Unopenable,
    exits,
    noted,
    raises_keyword_only,
    raises_two_arguments,
    raises_unpicklable,
    raises_value_error,
)


def drained(loader: Loader, got: list[int]) -> str:
    """Take all there is, and return the words of the error that ends it."""
    with pytest.raises(SampleError) as caught:
        for sample in loader:
            got.append(sample["x"])
    return str(caught.value)


def test_S6_worker_killed_by_signal_is_done_again_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    work = Kills(log, at=(5,), times=1, executor="process", num_workers=2)
    with Pipeline("s6", Numbers(12), work) as loader:
        with pytest.warns(RuntimeWarning, match="was killed by SIGKILL in toy.kills"):
            assert [sample["x"] for sample in loader] == list(range(12))
        loader.ledger.check()
        assert loader.ledger.delivered == loader.ledger.read == 12
    assert noted(log).count("5") == 2


def test_S6_sample_that_kills_twice_is_quarantined(tmp_path: Path) -> None:
    work = Kills(tmp_path / "log", at=(5,), executor="process", num_workers=1)
    with Pipeline("s6", Numbers(9), Add(), work, on_error=Quarantine(1)) as loader:
        with pytest.warns(RuntimeWarning, match="done again"):
            assert [sample["x"] for sample in loader] == [0, 1, 2, 3, 4, 6, 7, 8]
        loader.ledger.check()
        assert loader.ledger.quarantined == 1
        (record,) = loader.failures.records
    assert (record["stage"], record["key"]) == ("toy.kills", "5")
    assert record["error"] == "its worker was killed by SIGKILL twice"


def test_S6_sample_that_kills_twice_ends_the_run(tmp_path: Path) -> None:
    work = Kills(tmp_path / "log", at=(5,), number=signal.SIGSEGV, executor="process")
    got: list[int] = []
    with Pipeline("s6", Numbers(9, executor="process"), work) as loader:
        with pytest.warns(RuntimeWarning, match="SIGSEGV"):
            error = drained(loader, got)
        loader.ledger.check()
    assert "toy.kills failed on sample '5' in memory: its worker was killed by SIGSEGV" in error
    assert got == [0, 1, 2, 3, 4]


def test_S6_nothing_is_lost_or_doubled_when_jobs_are_sent_ahead(tmp_path: Path) -> None:
    log, killers = tmp_path / "log", (150, 400, 401)
    work = Kills(log, at=killers, executor="process", num_workers=2)
    with Pipeline("ahead", Numbers(600, shuffle=True), work, on_error=Quarantine(3)) as loader:
        with pytest.warns(RuntimeWarning, match="done again"):
            got = [sample["x"] for sample in loader]
        loader.ledger.check()
        records = loader.failures.records
    assert sorted(got) == sorted(set(range(600)) - set(killers))
    assert sorted(int(str(record["key"])) for record in records) == list(killers)
    lines = noted(log)
    assert all(1 <= lines.count(str(x)) <= 3 for x in range(600))


def test_a_worker_that_dies_idle_is_replaced(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Pipeline("idle", Numbers(3), Notes(log, executor="process", num_workers=1)) as loader:
        assert len(list(loader)) == 3
        os.kill(int(noted(log)[0].split()[1]), signal.SIGKILL)
        assert len(list(loader)) == 3
        loader.ledger.check()
    assert sum(line.startswith("open") for line in noted(log)) == 2


def test_B21_a_silent_worker_is_reported_with_its_stack(tmp_path: Path) -> None:
    work = Notes(tmp_path / "log", sleep_at=(1,), executor="process", num_workers=1)
    start = time.monotonic()
    with Pipeline("b21", Numbers(3), work, on_error=Quarantine(1), worker_timeout=0.4) as loader:
        with pytest.warns(RuntimeWarning, match=r"(?s)did not answer for 0.4 s.*in dozes"):
            assert [sample["x"] for sample in loader] == [0, 2]
        (record,) = loader.failures.records
        loader.ledger.check()
    assert record["error"] == "its worker did not answer for 0.4 s and was killed twice"
    assert time.monotonic() - start < 20


def test_S6_a_stopped_worker_is_replaced(tmp_path: Path) -> None:
    log = tmp_path / "log"
    work = Kills(log, at=(1,), times=1, number=signal.SIGSTOP, executor="process", num_workers=1)
    with Pipeline("stopped", Numbers(3), work, worker_timeout=0.4) as loader:
        with pytest.warns(RuntimeWarning, match="stopped by a signal, and was killed"):
            assert [sample["x"] for sample in loader] == [0, 1, 2]
        loader.ledger.check()


@pytest.mark.parametrize(
    ("function", "name", "message"),
    [
        (raises_two_arguments, "TwoArguments", "first and second"),
        (raises_keyword_only, "KeywordOnly", "code 7"),
        (raises_unpicklable, "Unpicklable", "it holds a lambda"),
        (raises_value_error, "ValueError", "plain"),
    ],
)
def test_B19_errors_reach_the_caller_whatever_they_are(
    function: Any, name: str, message: str
) -> None:
    with Pipeline("b19", Numbers(3), Calls(function, executor="process")) as loader:
        with pytest.raises(SampleError) as caught:
            list(loader)
        loader.ledger.check()
    error = caught.value
    assert str(error) == f"toy.calls failed on sample '0' in memory: {name}: {message}"
    assert (error.stage, error.key, error.shard) == ("toy.calls", "0", "memory")
    causes = [error.__cause__, getattr(error.__cause__, "__cause__", None)]
    told = "".join(str(cause) for cause in causes)
    assert f"in {function.__name__}\n" in told  # the worker's own traceback
    if name == "ValueError":
        assert isinstance(error.__cause__, ValueError)


def test_a_stage_that_exits_ends_the_run() -> None:
    with Pipeline("exit", Numbers(3), Calls(exits, executor="process")) as loader:
        with pytest.raises(RunError, match="toy.calls was ended by SystemExit: 4"):
            list(loader)
        loader.ledger.check()


def test_a_worker_that_cannot_start_says_why() -> None:
    with Pipeline("start", Numbers(3), Unopenable(executor="process"), Lists(1)) as loader:
        with pytest.raises(RunError) as caught:
            list(loader)
        loader.ledger.check()
        assert loader.ledger.delivered == 0  # what was read has not been through all stages
    text = str(caught.value)
    assert text.startswith(
        "a worker of toy.unopenable could not start: RuntimeError: no decoder here"
    )
    assert "in open\n" in text


def test_a_worker_that_exits_at_its_start_says_so() -> None:
    with Pipeline("start", Numbers(3), Unopenable(exits=True, executor="process")) as loader:
        with pytest.raises(RunError, match="could not start: its process ended with exit code 3"):
            list(loader)


def test_S6_kill_from_outside_in_the_middle(tmp_path: Path) -> None:
    log = tmp_path / "log"
    work = Notes(log, sleep_at=(1,), sleep_s=0.6, executor="process", num_workers=1)

    def kill() -> None:
        while not any(line.startswith("sleep") for line in noted(log)):
            time.sleep(0.01)
        os.kill(int(noted(log)[-1].split()[1]), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    with Pipeline("outside", Numbers(4), work, Lists(2)) as loader:
        killer.start()
        with pytest.warns(RuntimeWarning, match="SIGKILL in toy.notes"):
            assert list(loader) == [[0, 1], [2, 3]]
        loader.ledger.check()
    killer.join()
