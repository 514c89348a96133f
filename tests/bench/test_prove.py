from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench.prove import ITEMS, Item

from bench import prove

ROOT = Path(__file__).resolve().parents[2]
GOOD = {"value": 1.0, "low": 0.9, "high": 1.1, "at_most": 2.0, "met": True}
BAD = {**GOOD, "at_most": 0.5, "met": False}


def result(**targets: Any) -> dict[str, Any]:
    return {"machine": "m", "versions": {}, "command": "python -m x", "targets": targets}


def item(name: str, written: dict[str, Any] | None, code: int = 0) -> Item:
    """Return an item whose command writes a result, or none, and ends with a code."""
    write = f"open(sys.argv[-1], 'w').write({json.dumps(written)!r})" if written else "None"
    return Item(name, ("-c", f"import sys; {write}; sys.exit({code})"), f"{name}.json")


def run(tmp_path: Path, *items: Item, names: tuple[str, ...] = ()) -> int:
    return prove.main([*names, "--results", str(tmp_path)], items)


def test_the_items_are_there() -> None:
    assert {"overhead", "metering", "planted"} <= {entry.name for entry in ITEMS}
    assert len({entry.result for entry in ITEMS}) == len(ITEMS)
    for entry in ITEMS:
        assert (ROOT / f"{entry.command[1].replace('.', '/')}.py").exists()


def test_met_targets_end_well(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, item("one", result(a=GOOD, b=GOOD)), item("two", result(c=GOOD))) == 0
    assert json.loads((tmp_path / "one.json").read_text()) == result(a=GOOD, b=GOOD)
    lines = capfd.readouterr().out.splitlines()
    assert lines[-2:] == ["one: all 2 targets met", "two: all 1 targets met"]


def test_a_missed_target_is_said_and_counts(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, item("one", result(a=GOOD, b=BAD))) == 1
    assert (tmp_path / "one.json").exists()
    said = capfd.readouterr().out.splitlines()[-1]
    assert said == "one: 1 of 2 targets not met: MISSED b: 1 (0.9 to 1.1), at most 0.5"


def test_a_failed_command_keeps_the_last_result_and_the_rest_goes_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "one.json").write_text("before")
    assert run(tmp_path, item("one", result(a=GOOD), code=3), item("two", result(a=GOOD))) == 1
    assert (tmp_path / "one.json").read_text() == "before"
    assert (tmp_path / "two.json").exists()
    assert "one: FAILED: the command ended with 3" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (None, "wrote no result"),
        ({"machine": "m", "targets": {"a": GOOD}}, "says nothing on versions, command"),
        ({**result(a=GOOD), "machine": "in /srv/x"}, "must not name paths"),
    ],
)
def test_results_that_are_no_evidence_fail(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    written: dict[str, Any] | None,
    why: str,
) -> None:
    assert run(tmp_path, item("one", written)) == 1
    assert why in capfd.readouterr().out
    assert not list(tmp_path.iterdir())


def test_only_named_items_run(tmp_path: Path) -> None:
    items = item("one", result(a=GOOD)), item("two", result(a=BAD))
    assert run(tmp_path, *items, names=("one",)) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["one.json"]


def test_unknown_names_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(tmp_path, item("one", None), names=("won",))
    assert "no item won; there are one" in capsys.readouterr().err
