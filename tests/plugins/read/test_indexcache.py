import os
from pathlib import Path
from typing import Any

import pytest

from stoker_plugins.read import indexcache, tarindex
from stoker_plugins.read.tarindex import index_of
from tests.plugins.read.helpers import pairs, write_tar


def block(path: Path) -> None:
    """Make the place beside a shard unusable, for root as well."""
    indexcache.beside([str(path)]).mkdir()


def test_where_the_folder_cannot_be_written_the_users_cache_serves(
    tmp_path: Path, cache_folder: Path
) -> None:
    shard = write_tar(tmp_path / "a.tar", pairs(3))
    block(shard)
    index_of(str(shard))
    assert [path.parent for path in cache_folder.rglob("*.stoker-index")] == [
        cache_folder / "stoker" / "index"
    ]
    assert len(list(indexcache.kept([str(shard)]))) == 1


def test_S3_equal_names_in_two_folders_never_share_a_copy(
    tmp_path: Path, cache_folder: Path
) -> None:
    shards = [
        write_tar(tmp_path / folder / "train-000.tar", pairs(2, start=start))
        for folder, start in (("a", 0), ("b", 100))
    ]
    for shard in shards:
        os.utime(shard, ns=(0, 0))  # size and time are equal too
        block(shard)
        index_of(str(shard))
    assert len(list(cache_folder.rglob("*.stoker-index"))) == 2
    assert [index_of(str(shard)).key(0) for shard in shards] == ["00000", "00100"]


def test_a_stale_copy_beside_does_not_hide_a_current_one(
    tmp_path: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = write_tar(tmp_path / "a.tar", pairs(3))
    index_of(str(shard))
    write_tar(shard, pairs(4))
    write = indexcache._write_whole

    def read_only(place: Path, buffers: Any) -> None:
        if place.parent == tmp_path:
            raise PermissionError(13, "Permission denied")
        write(place, buffers)

    monkeypatch.setattr(indexcache, "_write_whole", read_only)
    assert len(index_of(str(shard))) == 4
    assert len(list(cache_folder.rglob("*.stoker-index"))) == 1
    monkeypatch.setattr(tarindex, "Walk", None)  # walking again would fail
    assert len(index_of(str(shard))) == 4


def test_nowhere_to_keep_it_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shard = write_tar(tmp_path / "a.tar", pairs(3))
    block(shard)
    monkeypatch.setenv("XDG_CACHE_HOME", str(shard))  # a file, where a folder should be
    assert indexcache.keep([str(shard)], [b"x"]) is None
    assert len(index_of(str(shard))) == 3


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shard = write_tar(tmp_path / "a.tar", pairs(3))

    def fail(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    index_of(str(shard))
    assert os.listdir(tmp_path) == ["a.tar"]
