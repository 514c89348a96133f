from __future__ import annotations

import stat

import pytest

from stoker.errors import UsageError
from stoker_plugins.folders import new_folder, whole_file


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_whole(tmp_path):
    path = tmp_path / "a.tar"
    with whole_file(path) as partial:
        partial.write_text("whole")
        assert not path.exists()
        assert partial.parent == tmp_path
    assert path.read_text() == "whole"
    assert names(tmp_path) == ["a.tar"]


def test_a_file_that_failed_leaves_nothing_and_the_old_one_stays(tmp_path):
    path = tmp_path / "a.tar"
    path.write_text("old")

    def fill():
        with whole_file(path) as partial:
            partial.write_text("half")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        fill()
    assert names(tmp_path) == ["a.tar"]
    assert path.read_text() == "old"


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_appears_whole(tmp_path, there):
    out = tmp_path / "deep" / "out"
    if there:
        out.mkdir(parents=True)
    with new_folder(out) as partial:
        (partial / "x").write_text("1")
        assert not there or not names(out)
    assert names(out) == ["x"]
    assert names(out.parent) == ["out"]
    reference = tmp_path / "reference"
    reference.mkdir()
    assert stat.S_IMODE(out.stat().st_mode) == stat.S_IMODE(reference.stat().st_mode)


def test_a_folder_that_failed_leaves_nothing(tmp_path):
    def fill():
        with new_folder(tmp_path / "out") as partial:
            (partial / "x").write_text("1")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        fill()
    assert names(tmp_path) == []


def test_a_relative_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with new_folder("out") as partial:  # type: ignore[arg-type]  # as the command line may
        (partial / "x").write_text("1")
    assert names(tmp_path / "out") == ["x"]


def test_what_is_there_is_not_overwritten(tmp_path):
    (tmp_path / "x").write_text("mine")
    with pytest.raises(UsageError, match="is not empty; give another folder, or force"):
        with new_folder(tmp_path):
            raise AssertionError("not reached")
    with pytest.raises(UsageError, match="is a file; give a folder"):
        with new_folder(tmp_path / "x", force=True):
            raise AssertionError("not reached")
    assert names(tmp_path) == ["x"]


def test_force_replaces_what_is_stale_and_keeps_the_rest(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    for name in ("train-000000.tar", "train-000009.tar", "info.json", "notes.txt"):
        (out / name).write_text("old")
    with new_folder(out, force=True, stale=["train-*.tar"]) as partial:
        (partial / "train-000000.tar").write_text("new")
        (partial / "info.json").write_text("new")
        assert (out / "train-000009.tar").exists()
    assert names(out) == ["info.json", "notes.txt", "train-000000.tar"]
    assert (out / "train-000000.tar").read_text() == "new"
    assert (out / "info.json").read_text() == "new"
    assert (out / "notes.txt").read_text() == "old"
    assert names(tmp_path) == ["out"]


def test_of_two_at_once_one_wins(tmp_path):
    out = tmp_path / "out"

    def fill_both():
        with new_folder(out) as late, new_folder(out) as early:
            (late / "x").write_text("late")
            (early / "x").write_text("early")

    with pytest.raises(UsageError, match="filled by somebody else"):
        fill_both()
    assert (out / "x").read_text() == "early"
    assert names(tmp_path) == ["out"]
