"""Stages that start processes, exit, or use up what their process may have."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from processes import python
from stoker import Pipeline, Quarantine
from stoker.errors import RunError, UsageError
from toys import Lists, Numbers

from . import habits
from .stages import Calls, Notes

ONE: dict[str, Any] = {"executor": "process", "num_workers": 1}


@pytest.mark.parametrize("function", [habits.ends_a_program, habits.ends_a_process])
def test_what_a_stage_starts_can_be_terminated(function: Any) -> None:
    with Pipeline("ends", Numbers(1), Calls(function, **ONE), worker_timeout=5.0) as loader:
        assert [sample["code"] for sample in loader] == [-15]


@pytest.mark.parametrize(
    "function", [habits.dies_and_leaves_a_program, habits.dies_and_leaves_a_copy]
)
def test_S6_a_death_is_noticed_though_the_stage_left_a_process_behind(function: Any) -> None:
    start = time.monotonic()
    work = Calls(function, **ONE)
    with Pipeline("left", Numbers(1), work, on_error=Quarantine(1)) as loader:
        with pytest.warns(RuntimeWarning, match="was killed by SIGKILL"):
            assert list(loader) == []
        loader.ledger.check()
        assert loader.ledger.quarantined == 1
    assert time.monotonic() - start < 6  # what is left behind lives longer


def test_a_copy_that_a_stage_forks_does_not_answer() -> None:
    with Pipeline("fork", Numbers(3), Calls(habits.copy_exits, **ONE)) as loader:
        assert [sample["code"] for sample in loader] == [7, 7, 7]
    with Pipeline("fork", Numbers(3), Calls(habits.copy_comes_out_too, **ONE)) as loader:
        assert [sample["code"] for sample in loader] == [1, 1, 1]
        loader.ledger.check()


@pytest.mark.parametrize("executor", ["thread", "process"])
def test_a_stage_that_exits_lets_nothing_through_that_it_did_not_work_on(executor: Any) -> None:
    work = Calls(habits.exits_at_two, executor=executor, num_workers=1)
    got: list[Any] = []
    with Pipeline("exit", Numbers(8), work) as loader:
        with pytest.raises(RunError, match="SystemExit: enough"):
            got.extend(loader)
        loader.ledger.check()
    assert all(sample.get("worked") for sample in got)
    with Pipeline("exit", Numbers(8), work, Lists(2, whole=True)) as loader:
        with pytest.raises(RunError, match="SystemExit: enough"):
            for batch in loader:
                assert all(sample.get("worked") for sample in batch)
        loader.ledger.check()


def test_a_worker_that_has_no_descriptor_left_says_so() -> None:
    bring = Calls(habits.brings_an_array, executor="thread", num_workers=1)
    take = Calls(habits.takes_all_descriptors, **ONE)
    with Pipeline("fds", Numbers(40), bring, take, on_error=Quarantine(40)) as loader:
        for sample in loader:
            assert len(sample["a"])
        loader.ledger.check()
        told = {str(record["error"]) for record in loader.failures.records}
    assert told
    assert all("the limit on open files is reached" in text for text in told)


def in_a_copy(act: Any) -> int:
    """Do something in a forked copy of this process, and return its exit code."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(act())
        finally:
            os._exit(99)
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return -9


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_copy_does_not_disturb_the_loader(tmp_path: Path) -> None:
    work = Notes(tmp_path / "log", sleep_at=tuple(range(300)), sleep_s=0.002, **ONE)
    with Pipeline("copy", Numbers(300), work) as loader:
        samples = iter(loader)
        next(samples)

        def closes() -> int:
            loader.close()
            return 0

        assert in_a_copy(closes) == 0
        assert len(list(samples)) == 299
        loader.ledger.check()


@pytest.mark.parametrize("executor", ["thread", "process"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_started_loader_is_refused_in_a_forked_copy(executor: Any, tmp_path: Path) -> None:
    work = Notes(tmp_path / "log", executor=executor, num_workers=1)
    with Pipeline("copy", Numbers(4), work) as loader:
        assert len(list(loader)) == 4

        def uses() -> int:
            try:
                return len(list(loader))
            except UsageError as error:
                return 50 if "make a loader here" in str(error) else 51

        assert in_a_copy(uses) == 50
        assert len(list(loader)) == 4


MODULE = """
from dataclasses import dataclass
from typing import Any, ClassVar
from stoker.stages import Map, Source

@dataclass(frozen=True)
class Three(Source):
    name: ClassVar[str] = "my.three"
    function: Any = None
    def addresses(self, epoch, rng): return range(3)
    def read(self, address):
        made = {"__key__": str(address), "__url__": "memory", "x": address}
        return {**made, "own": self.function(address)} if self.function else made

@dataclass(frozen=True)
class Does(Map):
    name: ClassVar[str] = "my.does"
    kind: ClassVar[str] = "augment"
    function: Any = None
    def apply(self, sample, rng):
        return {**sample, "own": self.function(sample["x"])} if self.function else sample
"""

SCRIPT = """
from dataclasses import dataclass
import mine
from stoker import Pipeline

@dataclass
class Own:
    x: int

if __name__ == "__main__":
    with Pipeline("own", mine.Three({there}), mine.Does({here}, executor="process")) as loader:
        assert [sample["own"] for sample in loader] == [Own(0), Own(1), Own(2)]
    print("done")
"""


@pytest.mark.parametrize(("there", "here"), [("Own", "None"), ("None", "Own")])
def test_classes_of_the_script_cross_in_both_directions(
    there: str, here: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(MODULE)
    (tmp_path / "script.py").write_text(SCRIPT.format(there=there, here=here))
    ran = python(str(tmp_path / "script.py"))
    assert (ran.stdout, ran.stderr) == ("done\n", "")


PLAIN = """
import mine, os
{first}
from stoker import Pipeline
with Pipeline("plain", mine.Three(), mine.Does(executor="process")) as loader:
    assert len(list(loader)) == 3
os._exit(33)
"""


@pytest.mark.parametrize(
    "first",
    [
        "os.chdir('/')",
        "os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')",
        "os.close(0)",
        "os.closerange(0, 3)",
    ],
)
def test_children_start_wherever_their_parent_is(first: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MODULE)
    ran = python("-c", PLAIN.format(first=first), cwd=tmp_path)
    assert ran.returncode == 33, ran.stderr
