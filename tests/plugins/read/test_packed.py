import mmap
from pathlib import Path

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_plugins.read import packed
from stoker_plugins.read.packed import ShardIndex, narrow, pack, unpack
from stoker_plugins.read.tarindex import index_of
from tests.plugins.read.helpers import pairs, write_tar


@pytest.fixture
def shards(tmp_path: Path) -> list[ShardIndex]:
    paths = [
        write_tar(tmp_path / "a.tar", pairs(3)),
        write_tar(tmp_path / "none.tar", []),
        write_tar(
            tmp_path / "b.tar", [("ü/q.JPG", b"1"), ("ü/q.jpg", b"2"), ("r.png", b"x" * 300)]
        ),
    ]
    return [index_of(str(path), keep=False) for path in paths]


def paths(shards: list[ShardIndex]) -> list[str]:
    return [shard.path for shard in shards]


def facts(shard: ShardIndex) -> list[object]:
    plain = [shard.path, shard.size, shard.mtime_ns, shard.closed, shard.names, shard.faults]
    return [*plain, *((column.format, column.tolist()) for column in shard.columns())]


@pytest.mark.parametrize("mapped", [True, False])
def test_what_is_packed_comes_back(shards: list[ShardIndex], tmp_path: Path, mapped: bool) -> None:
    content = b"".join(map(bytes, pack(shards)))
    place = tmp_path / "kept"
    place.write_bytes(content)
    with open(place, "rb") as file:
        buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if mapped else content
    back = unpack(buffer, paths(shards))
    assert back is not None
    assert [facts(shard) for shard in back] == [facts(shard) for shard in shards]
    assert back[2].key(0) == "ü/q"
    assert [len(shard) for shard in back] == [3, 0, 2]
    assert all(column.readonly for shard in back for column in shard.columns())


def test_a_byte_that_changed_is_noticed(shards: list[ShardIndex]) -> None:
    content = b"".join(map(bytes, pack(shards)))
    for at in range(0, len(content), 7):
        spoiled = bytearray(content)
        spoiled[at] ^= 0x10
        assert unpack(bytes(spoiled), paths(shards)) is None


def test_what_is_cut_or_too_long_is_noticed(shards: list[ShardIndex]) -> None:
    content = b"".join(map(bytes, pack(shards)))
    for length in range(0, len(content), 11):
        assert unpack(content[:length], paths(shards)) is None
    assert unpack(content + b"\0", paths(shards)) is None


@given(st.binary(max_size=200))
def test_anything_else_is_not_ours(content: bytes) -> None:
    assert unpack(content, ["a.tar"]) is None


def test_another_set_of_shards_or_version_is_not_this_one(
    shards: list[ShardIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"".join(map(bytes, pack(shards)))
    assert unpack(content, paths(shards)[:2]) is None
    monkeypatch.setattr(packed, "VERSION", packed.VERSION + 1)
    assert unpack(content, paths(shards)) is None


def test_a_file_of_another_byte_order_is_made_anew(
    shards: list[ShardIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = packed._facts

    def swapped(shard: ShardIndex) -> dict[str, object]:
        made = real(shard)
        made["columns"] = [
            [numpy.dtype(kind).newbyteorder().str, count] for kind, count in made["columns"]
        ]
        return made

    monkeypatch.setattr(packed, "_facts", swapped)
    # One byte has no order, so a shard whose columns are all that narrow stays readable.
    wide = [shard for shard in shards if shard.offsets.itemsize > 1]
    assert unpack(b"".join(map(bytes, pack(wide))), paths(wide)) is None


@pytest.mark.parametrize(
    ("values", "nbytes"), [([], 0), ([0, 255], 2), ([256], 2), ([1 << 16], 4), ([1 << 32], 8)]
)
def test_columns_are_as_narrow_as_their_values(values: list[int], nbytes: int) -> None:
    column = narrow(values)
    assert (column.tolist(), column.nbytes) == (values, nbytes)
