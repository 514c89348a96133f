"""An analysis of a pipeline, for real and short: shape and sense, not exact figures."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from stoker import Pipeline
from stoker.analyze.session import analyze
from stoker.cli import main
from stoker.errors import PlanError, SampleError
from stoker.run.versions import versions
from toys import Add, CountStep, Lists, Numbers


def job(sleep_s: float = 0.004, step_s: float = 0.0, **options: Any) -> Pipeline:
    stages = (Numbers(40), Add(sleep_s=sleep_s, num_workers=1), Lists(4), CountStep(step_s))
    return Pipeline("job", *stages, **options)


@pytest.mark.slow
def test_a_sleeping_stage_is_found_and_the_loader_and_step_are_measured_alone() -> None:
    heard: list[str] = []
    found = analyze(job(), 4.0, lambda phase, report: heard.append(phase))
    assert (found.diagnosis.stage, found.diagnosis.resource) == ("toy.add", "wait")
    evidence = found.evidence
    assert evidence.loader_alone is not None
    assert evidence.step_alone is not None
    assert 0.5 < evidence.loader_alone.value / evidence.throughput.value < 2.0
    assert evidence.step_alone.value > 3 * evidence.throughput.value
    assert list(dict.fromkeys(heard)) == [
        "warming up", "the job as it is", "the loader alone", "the step alone",
    ]  # fmt: skip
    assert not [t for t in threading.enumerate() if t.name.startswith("stoker-")]


@pytest.mark.slow
def test_a_slow_step_means_do_nothing() -> None:
    found = analyze(job(sleep_s=0.0, step_s=0.02), 3.0)
    assert (found.diagnosis.verdict, found.diagnosis.stage) == ("do nothing", "toy.count")


@pytest.mark.slow
def test_a_pipeline_without_a_step_is_its_loader_alone() -> None:
    found = analyze(Pipeline("loader", Numbers(40), Add(sleep_s=0.004, num_workers=1)), 2.0)
    assert found.diagnosis.stage == "toy.add"
    assert found.evidence.step_alone is None


def test_errors_come_through() -> None:
    with pytest.raises(PlanError):
        analyze(Pipeline("none", Add()), 1.0)
    with pytest.raises(SampleError):
        analyze(Pipeline("bad", Numbers(9, fail_at=(2,)), Lists(2), CountStep()), 1.0)


@pytest.mark.slow
def test_the_command_prints_the_promised_json(
    tmp_path: Any, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import json

    (tmp_path / "jobs_for_analysis.py").write_text(
        "from toys import *\nfrom stoker import Pipeline\n"
        "def job(): return Pipeline('job', Numbers(40), Add(sleep_s=0.004, num_workers=1), "
        "Lists(4), CountStep())\n"
    )
    target = f"{tmp_path / 'jobs_for_analysis.py'}:job"
    assert main(["analyze", target, "--seconds", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) >= {
        "pipeline", "throughput", "stages", "loader_alone", "step_alone", "bottleneck",
        "ceiling_ratio", "ledger", "host", "version",
    }  # fmt: skip
    assert set(found["throughput"]) >= {"low", "high"}
    assert set(found["stages"][0]) >= {
        "name", "kind", "num_workers", "executor", "segment", "items_per_s", "capacity_per_s",
        "service_ms", "p99_ms", "cpu_ms", "runqueue_ms", "blocked_ms", "data_wait_share",
        "output_wait_share",
    }  # fmt: skip
    assert set(found["ceiling_ratio"]) == {"value", "low", "high", "next"}
    assert set(found["bottleneck"]) >= {"stage", "resource", "evidence"}
    assert found["version"] == versions()["stoker"]
    (tmp_path / "a.json").write_text(json.dumps(found))
    assert main(["analyze", "--compare", str(tmp_path / "a.json"), str(tmp_path / "a.json")]) == 0
    slower = {**found, "windows": [
        {**window, "samples_per_s": window["samples_per_s"] / 3} for window in found["windows"]
    ]}  # fmt: skip
    (tmp_path / "b.json").write_text(json.dumps(slower))
    assert main(["analyze", "--compare", str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == 3
    assert main(["analyze", "--compare", str(tmp_path / "b.json"), str(tmp_path / "a.json")]) == 0
    capsys.readouterr()
    assert main(["analyze", target, "--seconds", "1", "--markdown"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("```\n")
    assert str(tmp_path) not in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["analyze"], "say one of"),
        (["analyze", "digits", "--run", "x"], "say one of"),
        (["analyze", "--run", "nowhere"], "does not exist"),
        (["analyze", "--compare", "nowhere", "neither"], "no such run folder"),
        (["analyze", "--loader", "nothing"], "module:function"),
    ],
)
def test_wrong_use_says_what_to_do(words: list[str], message: str, capsys: Any) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err
