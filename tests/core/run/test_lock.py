"""A run folder's lock."""

from __future__ import annotations

import fcntl
import gc
from pathlib import Path
from typing import Any

import pytest

from stoker.errors import UsageError
from stoker.run.lock import RunLock
from tests.processes import python

HOLDS = (
    "import sys; from pathlib import Path; from stoker.run.lock import RunLock\n"
    "RunLock(Path(sys.argv[1]))"
)


def test_two_runs_cannot_hold_one_folder(tmp_path: Path) -> None:
    lock = RunLock(tmp_path)
    with pytest.raises(UsageError, match="a live run writes there; wait for its end, or stop it"):
        RunLock(tmp_path)
    done = python("-c", HOLDS, str(tmp_path))
    assert done.returncode == 1
    assert "a live run writes there" in done.stderr
    lock.release()
    lock.release()
    assert python("-c", HOLDS, str(tmp_path)).returncode == 0
    RunLock(tmp_path).release()


def test_a_lock_that_is_lost_is_given_free(tmp_path: Path) -> None:
    RunLock(tmp_path)
    gc.collect()
    RunLock(tmp_path).release()


def test_a_folder_that_cannot_be_locked_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="cannot be locked: No such file"):
        RunLock(tmp_path / "nowhere")

    def none(*_: Any) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    with pytest.raises(UsageError, match=r"cannot be locked \(No locks available\); put --runs on"):
        RunLock(tmp_path)
    RunLock(tmp_path, fresh=True).release()
