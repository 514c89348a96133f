import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from stoker_plugins.read import Dataset, Files, Synthetic, WebDataset
from stoker_plugins.read.stamps import stamp
from tests.plugins.read.helpers import pairs, write_tar


def test_it_changes_with_path_size_and_time(tmp_path: Path) -> None:
    one, other = str(tmp_path / "a"), str(tmp_path / "b")
    for path in (one, other):
        Path(path).write_bytes(b"1234")
        os.utime(path, ns=(1, 1))
    seen = [stamp([one, other]), stamp([other, one]), stamp([one]), stamp([])]
    assert stamp([one, other]) == seen[0]
    os.utime(one, ns=(1, 2))
    seen.append(stamp([one, other]))
    Path(one).write_bytes(b"12345")
    os.utime(one, ns=(1, 2))
    seen.append(stamp([one, other]))
    os.unlink(one)
    seen.append(stamp([one, other]))
    assert len(set(seen)) == len(seen)


def test_any_file_of_a_tree_tells(tmp_path: Path) -> None:
    for name in ("cat/a.jpg", "dog/a.jpg"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"x")
    before = Files(tmp_path).content()
    assert before == Files(tmp_path, shuffle=True).content()
    (tmp_path / "dog/a.jpg").write_bytes(b"xy")
    assert Files(tmp_path).content() != before
    os.rename(tmp_path / "dog/a.jpg", tmp_path / "dog/b.jpg")
    assert len({before, Files(tmp_path).content()}) == 2
    assert Files(tmp_path / "missing").content() == ""


def test_any_shard_tells(tmp_path: Path) -> None:
    for name in ("a.tar", "b.tar"):
        write_tar(tmp_path / name, pairs(2))
    source = WebDataset(f"{tmp_path}/*.tar")
    before = source.content()
    assert before == WebDataset(f"{tmp_path}/*.tar", shuffle=True).content()
    write_tar(tmp_path / "b.tar", pairs(200))
    assert source.content() != before
    assert WebDataset(f"{tmp_path}/a.tar").content() != before


@pytest.mark.parametrize("name", ["fingerprint", "_fingerprint"])
def test_a_dataset_tells_by_length_and_its_own_fingerprint(name: str) -> None:
    class Kept(SimpleNamespace):
        def __len__(self) -> int:
            return 3

    assert Dataset([1, 2]).content() == Dataset([3, 4]).content() != Dataset([1]).content()
    one, other = (Dataset(Kept(**{name: mark})).content() for mark in ("a", "b"))
    assert one != other
    assert Dataset(Kept(**{name: lambda: "a"})).content() == Dataset(Kept()).content()


def test_made_up_pictures_have_no_data_but_their_parameters() -> None:
    assert Synthetic(3).content() == ""
