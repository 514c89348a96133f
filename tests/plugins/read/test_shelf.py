import os
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
import pytest

from stoker.rng import Rng
from stoker_plugins.read import indexcache, shelf, tarindex
from stoker_plugins.read.listing import Listing, PackedPaths
from stoker_plugins.read.order import order
from stoker_plugins.read.packed import ShardIndex, narrow
from stoker_plugins.read.shelf import Shelf, build
from tests.plugins.read.helpers import pairs, write_tar


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    return [
        str(write_tar(tmp_path / f"{name}.tar", pairs(4, start=10 * number)))
        for number, name in enumerate("abc")
    ]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The shards whose headers were walked, in order."""
    walked: list[str] = []
    real = tarindex._make

    def make(path: str, fd: int, now: os.stat_result) -> ShardIndex:
        walked.append(os.path.basename(path))
        return real(path, fd, now)

    monkeypatch.setattr(tarindex, "_make", make)
    return walked


def built(paths: list[str], keep: bool = True) -> Shelf:
    found, broken = build(paths, keep)
    assert broken == []
    return found


def keys(found: Shelf) -> list[str]:
    return [str(found.origin(number).key) for number in range(len(found))]


def maps_of(place: Path) -> int:
    """Return how often this process has mapped a file."""
    return Path("/proc/self/maps").read_text().count(str(place))


def test_several_shards_are_one_file_that_is_mapped(paths: list[str], made: list[str]) -> None:
    place = indexcache.beside(paths)
    first = built(paths)
    assert maps_of(place) == 1
    second = built(paths)
    assert (maps_of(place), len(made)) == (2, 3)
    assert keys(first) == keys(second)
    assert first.identity() == second.identity()
    del first, second
    assert maps_of(place) == 0


def test_one_shard_needs_no_second_file(paths: list[str], tmp_path: Path) -> None:
    found = built(paths[:1])
    assert sorted(name for name in os.listdir(tmp_path) if name[0] == ".") == [
        ".a.tar.stoker-index"
    ]
    assert maps_of(indexcache.beside(paths[:1])) == 1
    assert len(found) == 4


def test_many_shards_hold_one_file_open(tmp_path: Path) -> None:
    paths = [str(write_tar(tmp_path / f"{n:03d}.tar", pairs(1, start=n))) for n in range(60)]
    built(paths)
    before = len(os.listdir("/proc/self/fd"))
    found = built(paths)
    assert len(os.listdir("/proc/self/fd")) <= before + 1
    assert len(found) == 60


def test_a_mapped_index_needs_no_shard_to_be_opened(
    paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = keys(built(paths))
    monkeypatch.setattr(shelf, "index_of", None)
    assert keys(built(paths)) == expected


def test_only_what_changed_is_walked_again(paths: list[str], made: list[str]) -> None:
    old = built(paths)
    before = keys(old)
    made.clear()
    write_tar(Path(paths[1]), pairs(2, start=77))
    assert keys(built(paths)) == [*before[:4], "00077", "00078", *before[8:]]
    assert made == ["b.tar"]
    assert keys(old) == before  # its file was replaced, not changed
    assert old.identity() != built(paths).identity()


def test_a_damaged_file_of_all_is_made_from_those_of_each(
    paths: list[str], made: list[str]
) -> None:
    expected = keys(built(paths))
    place = indexcache.beside(paths)
    for content in (b"", b"stokeidx", place.read_bytes()[:-1]):
        place.write_bytes(content)
        assert keys(built(paths)) == expected
    assert len(made) == 3


def test_a_shard_that_is_gone_is_named(paths: list[str]) -> None:
    built(paths)
    os.unlink(paths[1])
    _, broken = build(paths, True)
    (said,) = broken
    assert "b.tar" in said


def test_where_nothing_can_be_kept_it_is_in_memory(
    paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexcache, "_places", lambda paths: ())
    found = built(paths)
    assert len(found) == 12
    assert keys(found) == keys(built(paths, keep=False))


def test_many_may_build_at_once(paths: list[str]) -> None:
    with ThreadPoolExecutor(8) as pool:
        shelves = list(pool.map(lambda _: keys(built(paths)), range(16)))
    assert shelves == [shelves[0]] * 16
    assert not [name for name in os.listdir(os.path.dirname(paths[0])) if name.endswith(".tmp")]


# -- B24: what a key costs -------------------------------------------------------------

MILLION = 1_000_000


def names() -> list[bytes]:
    """Return a million names as long as ImageNet's."""
    return [b"n%08d/ILSVRC2012_train_%08d" % (n // 1300, n) for n in range(MILLION)]


def test_B24_a_million_keys_cost_less_than_100_bytes_each() -> None:
    blob, ends = b"".join(names()), numpy.arange(MILLION + 1) * len(names()[0])
    offsets = numpy.arange(2 * MILLION) * 61_440 + 512
    columns = (ends, numpy.arange(0, 2 * MILLION + 1, 2), offsets, offsets % 65_536, offsets % 2)
    one = ShardIndex(
        "a.tar", 0, 0, True, ("jpg", "cls"), {}, memoryview(blob), *map(narrow, columns)
    )
    shuffled = order(MILLION, True, Rng(0, "read.webdataset"))
    assert shuffled.itemsize == 4  # type: ignore[attr-defined]
    assert Shelf([one]).nbytes + 4 * len(shuffled) < 70 * MILLION
    assert one.key(MILLION - 1) == "n00000769/ILSVRC2012_train_00999999"


def test_B24_a_million_files_cost_less_than_100_bytes_each() -> None:
    blob, ends = b"".join(names()), numpy.arange(MILLION + 1, dtype="u4") * len(names()[0])
    listing = Listing(("c",), blob, ends.data, numpy.zeros(MILLION, "u2").data, 0, {}, ())  # type: ignore[arg-type]
    shuffled = PackedPaths(listing, order(MILLION, True, Rng(0, "read.files")))
    assert listing.nbytes + 4 * MILLION < 60 * MILLION
    tracemalloc.start()
    try:
        for number in range(0, MILLION, 1000):
            shuffled[number : number + 10].tolist()
        assert tracemalloc.get_traced_memory()[0] < 10_000  # nothing is unpacked for good
    finally:
        tracemalloc.stop()


def test_B24_an_index_of_ones_own_costs_less_than_100_bytes_a_key(tmp_path: Path) -> None:
    path = str(write_tar(tmp_path / "a.tar", pairs(3000, size=1)))
    tracemalloc.start()
    try:
        found, _ = build([path], keep=False)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(found) == 3000
    assert held < 100 * 3000
