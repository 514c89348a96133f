from pathlib import Path

import pytest

from stoker_plugins.read.shards import compression, expand
from tests.plugins.read.helpers import pairs, write_tar


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(3):
        write_tar(tmp_path / "data" / f"train-{number:03d}.tar", pairs(1))
    return tmp_path / "data"


def test_path_glob_and_braces_mean_the_same(folder: Path) -> None:
    listed = [str(folder / f"train-{number:03d}.tar") for number in range(3)]
    assert expand(f"{folder}/train-{{000..002}}.tar") == (listed, [])
    assert expand(f"{folder}/train-*.tar") == (listed, [])
    assert expand(folder / "*.tar") == (listed, [])
    assert expand(tuple(reversed(listed))) == (listed[::-1], [])
    assert expand((f"{folder}/*-00{{0,1}}.tar", listed[2])) == (listed, [])


def test_a_name_that_exists_is_no_pattern(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a[1]{2}.tar", pairs(1))
    assert expand(str(path)) == ([str(path)], [])


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("nowhere/*.tar", "matches no file; there is no folder 'nowhere'"),
        ("{folder}/test-*.tar", "has 3 tar files, such as 'train-000.tar'"),
        ("{folder}/train-{{000..004}}.tar", "train-003.tar' (2 of 5)"),
        ("{folder}/nothing.tar", "no file '{folder}/nothing.tar'"),
        ("{folder}", "is a folder; for all shards in it write '{folder}/*.tar'"),
        ("{folder}/a{{0..", "Unbalanced braces"),
        ("https://host/a.tar", "only local files can be read"),
        ("s3:bucket/a.tar", "only local files can be read"),
    ],
)
def test_what_is_wrong_is_said(folder: Path, pattern: str, says: str) -> None:
    paths, problems = expand(pattern.format(folder=folder))
    assert len(problems) == 1
    assert says.format(folder=folder) in problems[0]
    assert "\n" not in problems[0]
    assert all(Path(path).is_file() for path in paths)


def test_all_problems_show_at_once(folder: Path) -> None:
    _, problems = expand((f"{folder}/x.tar", "pipe:cat y", f"{folder}/train-000.tar"))
    assert len(problems) == 2


def test_no_shards() -> None:
    assert expand(()) == ([], ["no shards are named; name at least one tar file"])


def test_a_shard_named_twice_would_repeat_samples(folder: Path) -> None:
    (folder / "other.tar").symlink_to(folder / "train-001.tar")
    _, problems = expand((f"{folder}/train-*.tar", f"{folder}/other.tar"))
    assert problems == [
        f"shard '{folder}/train-001.tar' is named 2 times: its samples would be read as often"
    ]


def test_S2_pipe_is_refused_and_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    paths, problems = expand("pipe:touch x")
    assert paths == []
    assert "commands are never run" in problems[0]
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(("mode", "name"), [("w", ""), ("w:gz", "gzip"), ("w:xz", "xz")])
def test_compression_is_told_by_content(tmp_path: Path, mode: str, name: str) -> None:
    assert compression(str(write_tar(tmp_path / "a.tar", pairs(1), mode))) == name
