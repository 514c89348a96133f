"""The public cases of reading, for both readers of shards, through the engine."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stoker import Quarantine
from stoker.errors import RunError, UsageError
from stoker.stages import Source, StreamSource
from stoker.testing import read_all
from stoker_plugins.read import WebDataset, WebDatasetStream, indexcache
from stoker_plugins.shards import write_shards
from tests.plugins.read.helpers import Members, pairs, problems, run, write_tar

Reader = Callable[..., Source | StreamSource]
META = {"__key__", "__url__", "__offset__"}


@pytest.fixture(params=[WebDataset, WebDatasetStream], ids=["indexed", "streamed"])
def reader(request: pytest.FixtureRequest) -> Reader:
    made: Reader = request.param
    return made


@pytest.fixture
def shard(tmp_path: Path) -> Callable[..., Path]:
    def write(members: Members, name: str = "a.tar") -> Path:
        return write_tar(tmp_path / name, members)

    return write


def named(*names: str) -> Members:
    return [(name, name.encode()) for name in names]


def fields(source: Any) -> list[tuple[str, set[str]]]:
    return [(sample["__key__"], set(sample) - META) for sample in read_all(source)]


def test_B01_only_dots_in_the_base_name_split(reader: Reader, shard: Any) -> None:
    names = ("a/22.0/1.1.png", "Track 2.0 (x).mp3", "train.v1/0001.jpg")
    found = fields(reader(shard(named(*names))))
    assert found == [
        ("a/22.0/1", {"1.png"}),
        ("Track 2", {"0 (x).mp3"}),
        ("train.v1/0001", {"jpg"}),
    ]
    assert [f"{key}.{field}" for key, (field,) in found] == list(names)


def test_B01_a_missing_field_lists_those_seen_and_names_the_member(
    reader: Reader, shard: Any
) -> None:
    path = shard(named("train.v1/0001.jpg", "train.v1/0001.txt", "x.cls"))
    with pytest.raises(RunError) as error:
        run(reader(path, required=("cls",)))
    said = "sample 'train.v1/0001' lacks required cls; its members: "
    assert said + "train.v1/0001.jpg, train.v1/0001.txt" in str(error.value)
    assert str(path) in str(error.value)


def test_B02_one_case_for_writer_reader_and_look_up(reader: Reader, tmp_path: Path) -> None:
    write_shards([{"__key__": "z", "TestData.PTH": b"1", "JPG": b"2"}], tmp_path / "ours")
    theirs = write_tar(tmp_path / "theirs.tar", named("x.JPG", "z.TestData.pth"))
    ours = f"{tmp_path}/ours/*.tar"
    assert fields(reader(ours, required=(".JPG", "testData.pth"))) == [
        ("z", {"testdata.pth", "jpg"})
    ]
    assert fields(reader(theirs)) == [("x", {"jpg"}), ("z", {"testdata.pth"})]


def test_B02_a_collision_names_both(reader: Reader, shard: Any) -> None:
    path = shard(named("x.JPG", "q.JPG", "q.jpg"))
    with pytest.raises(RunError, match=r"a\.tar.*'q\.JPG' and 'q\.jpg' are one field"):
        run(reader(path))


@pytest.mark.parametrize("policy", ["raise", Quarantine(10)])
def test_B04_a_key_that_returns_is_never_a_second_sample(
    reader: Reader, shard: Any, policy: Any
) -> None:
    path = shard(named("0.jpg", "1.jpg", "0.txt", "1.txt"))
    says = r"a\.tar: sample '0' returns with '0\.txt' after '1'"
    if reader is WebDatasetStream and policy != "raise":
        result = run(reader(path), policy)
        assert len(result.keys) == len(set(result.keys))
        assert (result.ledger.quarantined, len(result.records)) == (1, 1)
        assert "sample '0' returns" in result.records[0]["error"]
        return
    with pytest.raises(RunError, match=says):
        run(reader(path), policy)


def test_B05_a_shards_end_ends_the_sample(reader: Reader, shard: Any, tmp_path: Path) -> None:
    for name in ("s0", "s1"):
        shard([("img.jpg", name.encode())], f"{name}.tar")
    samples = run(reader(f"{tmp_path}/s*.tar")).samples
    assert [sample["jpg"] for sample in samples] == [b"s0", b"s1"]
    assert len({(sample["__url__"], sample["__key__"]) for sample in samples}) == 2


def test_B05_a_duplicate_is_one_error_under_the_policy(reader: Reader, shard: Any) -> None:
    shards = (shard(named("b.jpg", "a.jpg", "a.jpg")), shard(named("c.jpg"), "c.tar"))
    with pytest.raises(RunError, match=r"a\.tar.*'a\.jpg' occurs twice"):
        run(reader(shards))
    result = run(reader(shards), Quarantine(1))
    assert result.keys == ["b", "c"]
    assert (result.ledger.read, result.ledger.quarantined) == (3, 1)
    (record,) = result.records
    assert record["shard"] == str(shards[0])
    assert "'a.jpg' occurs twice" in record["error"]


def test_S1_a_sample_without_a_required_field_is_refused_counted_and_named(
    reader: Reader, shard: Any
) -> None:
    shards = (shard([*pairs(2), ("x.jpg", b"x")]), shard(pairs(1, start=7), "b.tar"))
    source = reader(shards, required=("jpg", "cls"))
    with pytest.raises(RunError, match=r"a\.tar.*sample 'x' lacks required cls.*: x\.jpg"):
        run(source)
    result = run(source, Quarantine(1))
    assert result.keys == ["00000", "00001", "00007"]
    assert (result.ledger.read, result.ledger.quarantined) == (4, 1)
    (record,) = result.records
    assert record["shard"] == str(shards[0])
    assert "sample 'x' lacks required cls" in record["error"]


def test_S2_no_command_is_run_and_no_pickle_loaded(
    reader: Reader, shard: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = reader("pipe:touch x")
    assert "commands are never run" in problems(source)[0]
    with pytest.raises(UsageError, match="commands are never run"):
        list(read_all(source))
    assert not (tmp_path / "x").exists()
    path = shard([(f"x.{field}", _bomb(tmp_path)) for field in ("pkl", "pyd", "pickle", "pth")])
    (sample,) = run(reader(path)).samples
    assert sample["pkl"] == sample["pyd"] == sample["pickle"] == sample["pth"] == _bomb(tmp_path)
    assert not (tmp_path / "exploded").exists()


class _Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def _bomb(folder: Path) -> bytes:
    return pickle.dumps(_Bomb(folder / "exploded"))


@pytest.mark.parametrize("together", [True, False])
def test_S3_equal_base_names_in_one_cache(
    reader: Reader,
    tmp_path: Path,
    cache_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    together: bool,
) -> None:
    paths = [
        write_tar(tmp_path / folder / "train-000.tar", pairs(2, start=start))
        for folder, start in (("a", 0), ("b", 5))
    ]
    groups = [paths, paths[::-1]] if together else [paths[:1], paths[1:]]
    # As where the data is read-only: everything is kept in one folder.
    monkeypatch.setattr(indexcache, "_places", lambda shards: (indexcache.elsewhere(shards),))
    for _ in range(2):
        found = [run(reader(tuple(group))).keys for group in groups]
        if together:
            assert found == [
                ["00000", "00001", "00005", "00006"],
                ["00005", "00006", "00000", "00001"],
            ]
        else:
            assert found == [["00000", "00001"], ["00005", "00006"]]
    kept = list(cache_folder.rglob("*.stoker-index"))
    expected = 0 if reader is WebDatasetStream else 4 if together else 2
    assert len(kept) == expected
