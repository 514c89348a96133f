"""SIGKILL for the whole job at random moments: what survives is the unbroken run, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from bench.faults_kills import Outcome, Pace, fresh, killed, unbroken

from tests.faults.scale import scaled

# Each lineage is killed a few times, since one that dies too often never comes to its end.
_A_LINEAGE = 4


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Pace]:
    return unbroken(fresh(tmp_path_factory.mktemp("whole") / "runs"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("executor", "kills"), [("thread", scaled(2, 25)), ("process", scaled(1, 25))]
)
def test_S9_kill_nine_of_the_job_loses_and_repeats_nothing(
    whole: tuple[Outcome, Pace],
    executor: str,
    kills: int,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    expected, pace = whole
    if executor == "process":
        same, pace = unbroken(fresh(tmp_path / "whole"), ("executor=process",))
        assert same.differences(expected) == []
    done = lineages = resumed = 0
    while done < kills:
        seed = 100 * lineages + len(executor)
        runs = fresh(tmp_path / f"runs-{lineages}")
        most = min(_A_LINEAGE, kills - done)
        outcome = killed(runs, most, pace, seed, (f"executor={executor}",))
        assert outcome.differences(expected) == []
        assert outcome.left_over == []
        done += outcome.kills
        resumed += len(outcome.restarts_from)
        lineages += 1
    record_property("kills", done)
    record_property("lineages", lineages)
    record_property("resumed from a checkpoint", resumed)
    assert expected.delivered == 900
    assert expected.balanced
