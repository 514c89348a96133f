"""The folder of a run: fresh, whole files, strict JSON."""

from __future__ import annotations

import json
import locale
import math
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from stoker.errors import UsageError
from stoker.run.folder import RunFolder


def lines(folder: RunFolder) -> list[Any]:
    text = (folder.path / "metrics.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_each_run_has_a_folder_of_its_own_also_within_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "strftime", lambda form: "20260101-000000")
    made = [RunFolder(tmp_path / "a" / "runs", "digits").path.name for _ in range(3)]
    assert made == [
        "20260101-000000-digits",
        "20260101-000000-digits-2",
        "20260101-000000-digits-3",
    ]


def test_runs_that_start_at_once_do_not_share_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "strftime", lambda form: "20260101-000000")
    made: list[Path] = []
    threads = [
        threading.Thread(target=lambda: made.append(RunFolder(tmp_path / "runs", "x").path))
        for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 12


@pytest.mark.parametrize(
    "name", ["a/b", "../up", "", "..", "x" * 300, "汉" * 300, "a\0b", "a\nb", "[/x]", "é .tar"]
)
def test_no_name_of_a_pipeline_leaves_the_folder_of_runs(tmp_path: Path, name: str) -> None:
    path = RunFolder(tmp_path / "runs", name).path
    assert path.parent == tmp_path / "runs"
    assert path.is_dir()
    assert [entry.name for entry in tmp_path.iterdir()] == ["runs"]


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    loose = tmp_path / "loose"
    loose.symlink_to(tmp_path / "nowhere" / "at all")
    for runs, reason in (
        (file, "Not a directory"),
        (file / "runs", "Not a directory"),
        (loose, "File exists"),
        (tmp_path / ("x" * 300), "File name too long"),
    ):
        with pytest.raises(UsageError) as caught:
            RunFolder(runs, "digits")
        assert str(caught.value) == (
            f"--runs {runs}: cannot make a run folder there: {reason}; give a folder that can be "
            "written to, which may be missing"
        )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_to_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="Permission denied"):
        RunFolder(tmp_path / "runs", "digits")
    tmp_path.chmod(0o700)


def test_metrics_are_lines_of_strict_json(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "x")
    folder.append({"loss": math.nan, "rate": math.inf, "unit": "µs"})
    folder.append({"text": "two\nlines", "path": tmp_path})
    assert lines(folder) == [
        {"loss": None, "rate": None, "unit": "µs"},
        {"text": "two\nlines", "path": str(tmp_path)},
    ]


def test_lines_of_two_threads_stay_whole(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "x")

    def write(who: int) -> None:
        for number in range(40):
            folder.append({"who": who, "number": number, "text": "x" * 300})

    threads = [threading.Thread(target=write, args=(who,)) for who in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for who in range(3):
        assert [r["number"] for r in lines(folder) if r["who"] == who] == list(range(40))


def test_a_file_is_written_whole_in_any_locale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locale, "getpreferredencoding", lambda *_: "ascii")
    monkeypatch.setattr(locale, "getencoding", lambda: "ascii")
    folder = RunFolder(tmp_path, "x")
    folder.write("report.md", "12 µs")
    folder.write("report.md", "13 µs")
    assert (folder.path / "report.md").read_bytes() == "13 µs".encode()
    assert [entry.name for entry in folder.path.iterdir()] == ["report.md"]


def test_a_write_that_fails_leaves_the_old_file_and_no_half_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path, "x")
    folder.write("result.json", "old")

    def full(self: Path, text: str, *given: Any) -> None:
        self.write_bytes(text.encode()[:1])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left"):
        folder.write("result.json", "new")
    assert (folder.path / "result.json").read_bytes() == b"old"
    assert [entry.name for entry in folder.path.iterdir()] == ["result.json"]
