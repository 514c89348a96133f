import io
import os
import re
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_plugins.read import indexcache, packed, tarindex
from stoker_plugins.read.packed import ShardIndex
from stoker_plugins.read.shelf import Shelf
from stoker_plugins.read.tarindex import index_of
from tests.plugins.read.helpers import Members, pairs, write_tar


def npy() -> bytes:
    """Return a whole file of NumPy's other format."""
    buffer = io.BytesIO()
    numpy.save(buffer, numpy.arange(3))
    return buffer.getvalue()


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    return write_tar(tmp_path / "a.tar", pairs(3))


@pytest.fixture
def makings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The shards whose headers were walked, in order."""
    made: list[str] = []
    real = tarindex._make

    def make(path: str, fd: int, now: os.stat_result) -> ShardIndex:
        made.append(path)
        return real(path, fd, now)

    monkeypatch.setattr(tarindex, "_make", make)
    return made


def test_keys_members_and_fields(shard: Path) -> None:
    index = index_of(str(shard))
    assert len(index) == 3
    assert [index.key(number) for number in range(3)] == ["00000", "00001", "00002"]
    assert index.names == ("jpg", "cls")
    assert index.members(1) == range(2, 4)
    assert index.closed
    assert not index.faults


def test_it_is_kept_beside_the_shard_and_made_once(shard: Path, makings: list[str]) -> None:
    first, second = index_of(str(shard)), index_of(str(shard))
    assert makings == [str(shard)]
    assert sorted(os.listdir(shard.parent)) == [".a.tar.stoker-index", "a.tar"]
    assert [first.key(n) for n in range(3)] == [second.key(n) for n in range(3)]
    for column in ("firsts", "offsets", "sizes", "fields", "key_ends"):
        assert getattr(first, column).tolist() == getattr(second, column).tolist()
    assert (first.names, first.faults, first.closed) == (second.names, second.faults, second.closed)


def test_faults_are_kept_too(tmp_path: Path, makings: list[str]) -> None:
    path = str(write_tar(tmp_path / "a.tar", [("q.jpg", b"1"), ("q.JPG", b"2"), ("r.jpg", b"3")]))
    assert index_of(path).faults == index_of(path).faults
    assert set(index_of(path).faults) == {0}
    assert len(makings) == 1


def test_another_size_makes_it_anew(shard: Path, makings: list[str]) -> None:
    index_of(str(shard))
    write_tar(shard, pairs(30))
    assert len(index_of(str(shard))) == 30
    assert len(makings) == 2


def test_another_time_of_change_makes_it_anew(shard: Path, makings: list[str]) -> None:
    index_of(str(shard))
    now = shard.stat()
    write_tar(shard, pairs(3, start=5))
    os.utime(shard, ns=(now.st_atime_ns, now.st_mtime_ns + 1))
    assert shard.stat().st_size == now.st_size
    assert index_of(str(shard)).key(0) == "00005"
    assert len(makings) == 2


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut", b"\x93NUMPY", npy(), b"text" * 100])
def test_a_damaged_copy_is_made_anew(shard: Path, makings: list[str], content: bytes) -> None:
    index_of(str(shard))
    indexcache.beside([str(shard)]).write_bytes(content)
    assert len(index_of(str(shard))) == 3
    assert len(index_of(str(shard))) == 3
    assert len(makings) == 2


def test_a_copy_of_another_version_is_made_anew(
    shard: Path, makings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    index_of(str(shard))
    monkeypatch.setattr(packed, "VERSION", packed.VERSION + 1)
    index_of(str(shard))
    assert len(makings) == 2


def test_without_keeping_nothing_is_written(shard: Path, cache_folder: Path) -> None:
    index_of(str(shard), keep=False)
    assert os.listdir(shard.parent) == ["a.tar"]
    assert os.listdir(cache_folder) == []


def test_a_shard_costs_well_under_100_bytes_a_key(tmp_path: Path) -> None:
    index = index_of(str(write_tar(tmp_path / "a.tar", pairs(500))))
    assert index.nbytes < 40 * 500


# -- property: reading by index equals reading with tarfile ----------------------

_STEMS = st.text("ab 1_é-", min_size=1, max_size=8)
_FOLDERS = st.sampled_from(["", "d/", "train.v1/22.0/", "x" * 150 + "/"])
_FIELDS = st.lists(
    st.sampled_from(["jpg", "CLS", "seg.png", "json", "y" * 90]), min_size=1, unique=True
)
_DATA = st.one_of(st.binary(max_size=20), st.sampled_from([512, 1000, 1024]).map(bytes))


@st.composite
def archives(draw: st.DrawFn) -> list[tuple[str, bytes]]:
    keys = draw(st.lists(st.tuples(_FOLDERS, _STEMS).map("".join), unique=True, max_size=6))
    members = []
    for key in keys:
        for field in draw(_FIELDS):
            members.append((f"{key}.{field}", draw(_DATA)))
        if draw(st.booleans()):
            members.append((draw(st.sampled_from(["README", "d/._x.jpg", "__m__/a.b"])), b"no"))
    return members


def grouped(path: Path) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Read samples with tarfile and the regular expression that the format is defined by."""
    samples: dict[str, dict[str, bytes]] = {}
    with tarfile.open(path) as archive:
        for info in archive:
            match = re.match(r"^((?:.*/|)[^.]+)[.]([^/]*)$", info.name)
            if match and not info.name.startswith(("__m__", "d/._")):
                file = archive.extractfile(info)
                assert file is not None
                samples.setdefault(match[1], {})[match[2].lower()] = file.read()
    yield from samples.items()


@settings(max_examples=60, deadline=None)
@given(members=archives(), layout=st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]))
def test_reading_by_index_equals_tarfile(members: Members, layout: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write_tar(Path(folder) / "a.tar", members, format=layout)
        shelf = Shelf([index_of(str(path), keep=False)])
        with shelf.reader(()) as read:
            found = [read(number) for number in range(len(shelf))]
        for sample, (key, fields) in zip(found, grouped(path), strict=True):
            assert sample.pop("__key__") == key
            assert sample.pop("__url__") == str(path)
            assert isinstance(sample.pop("__offset__"), int)
            assert sample == fields
