import bz2
import gzip
import lzma
import tarfile
from pathlib import Path

import pytest

from stoker import Quarantine
from stoker.errors import SampleError, UsageError
from stoker.plugins import host
from stoker.rng import Rng
from stoker.testing import check_stage, read_all
from stoker_plugins.read import WebDataset, WebDatasetStream
from tests.plugins.read.helpers import pairs, problems, run, write_tar


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_every_packing_gives_what_the_indexed_reader_gives(tmp_path: Path, mode: str) -> None:
    members = [*pairs(5), ("a/22.0/1.1.PNG", b"p"), ("README", b"no"), ("__meta__", b"no")]
    packed = write_tar(tmp_path / "packed.tar", members, mode)
    plain = write_tar(tmp_path / "plain.tar", members)
    streamed = list(read_all(WebDatasetStream(packed)))
    read = list(read_all(WebDataset(plain)))
    for sample in read:
        sample["__url__"] = str(packed)
    assert streamed == read


def test_contract(tmp_path: Path) -> None:
    check_stage(WebDatasetStream(f"{tmp_path}/*.tar", shuffle=True, required=("jpg",)))
    assert host().stage_class("read.webdataset_stream") is WebDatasetStream


def test_shuffle_orders_the_shards(tmp_path: Path) -> None:
    for number in range(8):
        write_tar(tmp_path / f"{number}.tar", pairs(1))
    source = WebDatasetStream(f"{tmp_path}/*.tar", shuffle=True)

    def shards(epoch: int) -> list[object]:
        return list(source.shards(epoch, Rng(0, source.name).move(epoch, 0)))

    assert shards(0) == shards(0)
    assert shards(0) != shards(1)
    assert sorted(map(str, shards(0))) == [f"{tmp_path}/{number}.tar" for number in range(8)]
    in_order = WebDatasetStream(f"{tmp_path}/*.tar")
    assert list(in_order.shards(0, Rng(0, "x"))) == sorted(map(str, shards(0)))


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["0.jpg", "1.jpg", "0.txt"], r"a\.tar: sample '0' returns with '0\.txt'"),
        (
            ["q.JPG", "q.jpg"],
            r"sample 'q' in .*a\.tar at offset 1024: 'q\.JPG' and 'q\.jpg' are one field",
        ),
        (["a.jpg", "a.jpg"], r"sample 'a' in .*a\.tar at offset 1024: 'a\.jpg' occurs twice"),
    ],
)
def test_B02_B04_B05_the_policy_is_the_indexed_readers(
    tmp_path: Path, names: list[str], says: str
) -> None:
    path = write_tar(tmp_path / "a.tar", [(name, b"x") for name in names], "w:gz")
    with pytest.raises((ValueError, SampleError), match=says):
        list(read_all(WebDatasetStream(path)))


def test_B05_a_shards_end_ends_the_sample(tmp_path: Path) -> None:
    for name in ("s0", "s1"):
        write_tar(tmp_path / f"{name}.tar", [("img.jpg", name.encode())], "w:gz")
    samples = list(read_all(WebDatasetStream(f"{tmp_path}/s*.tar")))
    assert [sample["jpg"] for sample in samples] == [b"s0", b"s1"]


def test_S1_a_sample_without_a_required_field_is_refused(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar", [*pairs(1), ("x.jpg", b"x")], "w:gz")
    stream = read_all(WebDatasetStream(path, required=("jpg", "cls")))
    assert next(stream)["__key__"] == "00000"
    with pytest.raises(SampleError, match=r"a\.tar at offset 2560: sample 'x' lacks required cls"):
        next(stream)


def test_S2_pipe_is_refused() -> None:
    source = WebDatasetStream("pipe:touch x")
    assert "commands are never run" in problems(source)[0]
    with pytest.raises(UsageError, match="commands are never run"):
        source.shards(0, Rng(0, "x"))


@pytest.mark.parametrize("packing", [gzip, bz2, lzma])
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_a_cut_file_is_an_error_that_names_it(
    tmp_path: Path, packing: object, share: float
) -> None:
    data = write_tar(tmp_path / "plain.tar", pairs(40)).read_bytes()
    packed = packing.compress(data)  # type: ignore[attr-defined]
    path = tmp_path / "a.tar.x"
    path.write_bytes(packed[: int(len(packed) * share)])
    with pytest.raises(ValueError, match=r"a\.tar\.x, unpacked, at offset \d+: is cut or dam"):
        list(read_all(WebDatasetStream(path)))


@pytest.mark.parametrize("length", [600, 1024 * 3 + 100, 1024 * 3 + 512 + 7])
def test_a_cut_plain_archive_is_an_error_too(tmp_path: Path, length: int) -> None:
    data = write_tar(tmp_path / "plain.tar", pairs(40)).read_bytes()
    path = tmp_path / "a.tar.gz"
    path.write_bytes(gzip.compress(data[:length]))
    with pytest.raises(ValueError, match=r"a\.tar\.gz, unpacked, at offset \d+: is cut inside"):
        list(read_all(WebDatasetStream(path)))


def test_a_small_archive_with_a_damaged_header_loses_nothing_silently(tmp_path: Path) -> None:
    data = bytearray(write_tar(tmp_path / "a.tar", pairs(3)).read_bytes())
    data[2048 + 5] ^= 0xFF  # all within the first block that is read of a tar
    (tmp_path / "a.tar").write_bytes(data)
    with pytest.raises(ValueError, match=r"a\.tar at offset 2048: no tar header is here"):
        list(read_all(WebDatasetStream(tmp_path / "a.tar")))


def test_links_hold_no_data(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar", [("a.jpg", b"1")])
    with tarfile.open(path, "a") as archive:
        info = tarfile.TarInfo("a.cls")
        info.type, info.linkname = tarfile.SYMTYPE, "other.cls"
        archive.addfile(info)
    with pytest.raises(SampleError, match=r"'a' in .*a\.tar at offset 1024: 'a\.cls' is a link"):
        list(read_all(WebDatasetStream(path)))


def test_a_size_that_is_damaged_asks_for_no_more_than_there_is(tmp_path: Path) -> None:
    data = bytearray(write_tar(tmp_path / "a.tar", [("a.jpg", b"x" * 700)]).read_bytes())
    data[124:136] = b"\x80" + (1 << 50).to_bytes(11, "big")
    data[148:156] = b" " * 8
    data[148:156] = f"{sum(data[:512]):06o}\0 ".encode()
    (tmp_path / "a.tar").write_bytes(data)
    with pytest.raises(ValueError, match=r"at offset 0: is cut inside 'a\.jpg', of \d{16} bytes"):
        list(read_all(WebDatasetStream(tmp_path / "a.tar")))


def test_glued_archives_lose_nothing_silently(tmp_path: Path) -> None:
    parts = [write_tar(tmp_path / f"{n}.tar", pairs(20, 100, 20 * n)).read_bytes() for n in (0, 1)]
    path = tmp_path / "a.tar.gz"
    path.write_bytes(gzip.compress(b"".join(parts)))
    with pytest.raises(ValueError, match="data follows the end-of-archive mark"):
        list(read_all(WebDatasetStream(path)))


def test_a_packing_that_is_not_known_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd" + b"x" * 100)
    assert "compressed with zstd; allowed are gzip" in problems(WebDatasetStream(path))[0]
    with pytest.raises(ValueError, match="zstd"):
        list(WebDatasetStream(path).stream(str(path)))


def test_leaving_a_stream_early_leaves_nothing_open(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar", pairs(50, 1000), "w:gz")
    stream = WebDatasetStream(path).stream(str(path))
    assert next(stream)["__key__"] == "00000"
    stream.close()  # type: ignore[attr-defined]  # a generator; unclosed files fail the test


@pytest.mark.parametrize("wrong", [{"paths": 3}, {"paths": None}, {"required": 5}])
def test_check_never_raises(wrong: dict[str, object]) -> None:
    given: dict[str, object] = {"paths": "x.tar", **wrong}
    assert isinstance(problems(WebDatasetStream(**given)), list)  # type: ignore[arg-type]


def test_one_faulty_sample_does_not_cost_its_shard(tmp_path: Path) -> None:
    members = [*pairs(2), ("x.jpg", b"x"), ("y.jpg", b"1"), ("y.jpg", b"2"), ("z.jpg", b"z")]
    path = write_tar(tmp_path / "a.tar", [*members, ("z.cls", b"z")], "w:gz")
    result = run(WebDatasetStream(path, required=("jpg", "cls")), Quarantine(2))
    assert [sample["__key__"] for sample in result.samples] == ["00000", "00001", "z"]
    assert [record["key"] for record in result.records] == ["x", "y"]
    assert all(isinstance(record["offset"], int) for record in result.records)
    assert result.ledger.quarantined == 2
