"""Two measurements side by side, and recorded runs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from stoker.analyze.compare import compare
from stoker.analyze.recorded import recorded
from stoker.errors import UsageError

from .evidences import report, row, step


def run_folder(path: Path, rates: list[float], pipeline: str = "planted", **cpu: Any) -> Path:
    path.mkdir()
    lines = []
    for rate in rates:
        window = report(row("read.files"), step(items=int(rate), items_per_s=rate), **cpu)
        lines.append(json.dumps({"event": "window", **asdict(window), "pipeline": pipeline}))
    (path / "metrics.jsonl").write_text("\n".join([*lines, '{"event": "evaluation"}', '{"cut o']))
    return path


STEADY = [50.0, 100.0, 101.0, 99.0, 100.5, 99.5, 100.0, 98.0]


def scaled(factor: float) -> list[float]:
    return [rate * factor for rate in STEADY]


@pytest.mark.parametrize(
    ("factor", "slower", "word"),
    [(0.8, True, "slower"), (1.25, False, "faster"), (1.002, False, "no difference")],
)
def test_slower_is_slower_beyond_the_interval(
    factor: float, slower: bool, word: str, tmp_path: Path
) -> None:
    a = run_folder(tmp_path / "a", STEADY)
    b = run_folder(tmp_path / "b", scaled(factor))
    found = compare(a, b)
    assert found.slower is slower
    assert found.verdict.startswith(word)
    assert found.ratio.value == pytest.approx(factor, rel=0.001)
    assert found.ratio.low <= factor <= found.ratio.high
    assert "read.files" in str(found)


def test_an_analysis_as_json_can_be_a_side(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "a", STEADY)
    saved = {
        "pipeline": "planted",
        "windows": [{"window_s": 1.0, "samples_per_s": rate} for rate in scaled(0.5)],
        "stages": [{"name": "read.files", "service_ms": 0.5}],
    }
    (tmp_path / "b.json").write_text(json.dumps(saved))
    found = compare(folder, tmp_path / "b.json")
    assert found.slower
    assert found.to_dict()["stages"]["read.files"] == {"a_ms": 0.01, "b_ms": 0.5}


def test_what_cannot_be_compared_says_so(tmp_path: Path) -> None:
    a = run_folder(tmp_path / "a", STEADY)
    other = run_folder(tmp_path / "other", STEADY, pipeline="else")
    (tmp_path / "odd.json").write_text("[1, 2]")
    with pytest.raises(UsageError, match="no such run folder"):
        compare(a, tmp_path / "missing")
    with pytest.raises(UsageError, match="compare measurements of one pipeline"):
        compare(a, other)
    with pytest.raises(UsageError, match="not the JSON of an analysis"):
        compare(a, tmp_path / "odd.json")
    with pytest.raises(UsageError, match="delivered nothing"):
        compare(a, run_folder(tmp_path / "none", [0.0, 0.0, 0.0]))


def test_a_recorded_run_leaves_its_start_out(tmp_path: Path) -> None:
    found = recorded(run_folder(tmp_path / "run", STEADY, cpu_s=1.5)).evidence
    assert len(found.windows) == 7
    assert found.throughput.value == pytest.approx(99.7, abs=0.3)
    assert found.host.own == pytest.approx(1.5)
    assert found.host.others is None
    assert found.device_step


def test_what_is_no_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        recorded(tmp_path / "missing")
    with pytest.raises(UsageError, match=r"has no metrics\.jsonl"):
        recorded(tmp_path)
    (tmp_path / "metrics.jsonl").write_text("")
    with pytest.raises(UsageError, match="holds no windows"):
        recorded(tmp_path)
