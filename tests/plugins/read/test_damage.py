"""Shards that are cut, damaged, empty or packed: one clear error, and the rest goes on."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker import Quarantine
from stoker.errors import PlanError, RunError
from stoker_plugins.read import WebDataset, WebDatasetStream
from tests.plugins.read.helpers import cautions, pairs, problems, run, write_tar

# `pairs(4, size=400)`: each sample is a header, 800 bytes in two blocks, a header, a block.
SAMPLE = 5 * 512
KEYS = [f"{number:05d}" for number in range(20)]


def cut_in_member(data: bytearray) -> None:
    del data[SAMPLE + 512 + 100 :]


def cut_in_header(data: bytearray) -> None:
    del data[SAMPLE + 100 :]


def garbage_header(data: bytearray) -> None:
    data[SAMPLE : SAMPLE + 512] = b"\xa5garbage" * 64


def one_wrong_byte(data: bytearray) -> None:
    data[SAMPLE + 3] ^= 0x40


def empty(data: bytearray) -> None:
    del data[:]


DAMAGES = [
    (cut_in_member, f"at offset {SAMPLE}: is cut inside '00005.jpg', of 800 bytes"),
    (cut_in_header, f"at offset {SAMPLE}: is cut inside a header, after 100 of 512 bytes"),
    (garbage_header, f"at offset {SAMPLE}: no tar header is here"),
    (one_wrong_byte, f"at offset {SAMPLE}: no tar header is here: its checksum is wrong"),
    (empty, "at offset 0: is empty"),
]
damages = pytest.mark.parametrize(
    ("damage", "says"), DAMAGES, ids=[case[0].__name__ for case in DAMAGES]
)


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    """Three shards of four samples each."""
    return [
        write_tar(tmp_path / f"{name}.tar", pairs(4, size=400, start=4 * number))
        for number, name in enumerate("abc")
    ]


def spoil(path: Path, damage: Callable[[bytearray], None]) -> None:
    data = bytearray(path.read_bytes())
    damage(data)
    path.write_bytes(data)


@damages
def test_the_indexed_reader_finds_it_at_plan_time(
    shards: list[Path], damage: Callable[[bytearray], None], says: str
) -> None:
    spoil(shards[1], damage)
    source = WebDataset(tuple(shards))
    assert problems(source) == []
    (warned,) = cautions(source)
    assert warned.startswith(f"{shards[1]} {says}")
    for policy in ("raise", Quarantine(100)):
        with pytest.raises(RunError, match=r"1 of 3 shards cannot be used: ") as error:
            run(source, policy)
        assert f"{shards[1]} {says}" in str(error.value)


@damages
def test_the_streaming_reader_finds_it_when_it_gets_there(
    shards: list[Path], damage: Callable[[bytearray], None], says: str
) -> None:
    spoil(shards[1], damage)
    source = WebDatasetStream(tuple(shards))
    assert problems(source) == cautions(source) == []
    with pytest.raises(RunError) as error:
        run(source)
    assert str(error.value).count(f"{shards[1]} {says}") == 1
    result = run(source, Quarantine(1))
    # The one just before the damage is not among them: it may lack a member.
    assert result.keys == KEYS[:4] + KEYS[8:12]
    assert (result.ledger.delivered, result.ledger.quarantined) == (8, 1)
    (record,) = result.records
    assert record["shard"] == str(shards[1])
    assert says in record["error"]
    with pytest.raises(RunError, match="1 samples failed, the quarantine's budget is 0"):
        run(source, Quarantine(0))


@damages
def test_offsets_in_a_packed_shard_are_those_of_its_content(
    shards: list[Path], damage: Callable[[bytearray], None], says: str
) -> None:
    spoil(shards[1], damage)
    spoil(shards[1], lambda data: data.__setitem__(slice(None), gzip.compress(bytes(data))))
    result = run(WebDatasetStream(tuple(shards)), Quarantine(1))
    assert result.keys == KEYS[:4] + KEYS[8:12]
    assert f"{shards[1]}, unpacked, {says}" in result.records[0]["error"]


@pytest.mark.parametrize("share", [0.1, 0.6, 0.95])
def test_a_packed_shard_that_is_cut_costs_what_follows(shards: list[Path], share: float) -> None:
    packed = gzip.compress(shards[1].read_bytes())
    shards[1].write_bytes(packed[: int(len(packed) * share)])
    result = run(WebDatasetStream(tuple(shards)), Quarantine(1))
    assert result.ledger.quarantined == 1
    assert result.keys[:4] == KEYS[:4]
    assert result.keys[-4:] == KEYS[8:12]
    assert f"{shards[1]}, unpacked, at offset" in result.records[0]["error"]
    assert "is cut or damaged: Compressed file ended" in result.records[0]["error"]


def test_a_gzipped_tar_named_tar_is_refused_by_one_and_read_by_the_other(
    shards: list[Path],
) -> None:
    shards[1].write_bytes(gzip.compress(shards[1].read_bytes()))
    with pytest.raises(PlanError, match=r"b\.tar' is compressed \(gzip\).*WebDatasetStream"):
        run(WebDataset(tuple(shards)), Quarantine(100))
    assert run(WebDatasetStream(tuple(shards))).keys == KEYS[:12]


@damages
def test_damage_after_indexing_is_found_when_it_is_read(
    shards: list[Path], damage: Callable[[bytearray], None], says: str
) -> None:
    source = WebDataset(tuple(shards))
    result = run(source, Quarantine(4), between=lambda: spoil(shards[1], damage))
    assert result.keys == KEYS[:4] + KEYS[8:12]
    assert (result.ledger.read, result.ledger.quarantined) == (12, 4)
    assert sorted(record["key"] for record in result.records) == KEYS[4:8]
    first = min(result.records, key=lambda record: record["key"])
    assert (first["shard"], first["offset"]) == (str(shards[1]), 512)
    assert "was changed after it was indexed" in first["error"]


def test_damage_after_indexing_fails_a_run_without_quarantine(shards: list[Path]) -> None:
    source = WebDataset(tuple(shards[1:]), executor="inline")
    with pytest.raises(RunError, match=r"sample '00004' in .*b\.tar at offset 512: .*was changed"):
        run(source, between=lambda: spoil(shards[1], cut_in_member))
