import os
import pickle
import random
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stoker.errors import RunError, UsageError
from stoker.plugins import host
from stoker.rng import Rng
from stoker.stages import Worker
from stoker.testing import check_stage, order, read_all
from stoker_plugins.read import WebDataset
from stoker_plugins.read.shelf import _OPEN_SHARDS
from tests.plugins.read.helpers import cautions, pairs, problems, write_tar


@pytest.fixture
def shards(tmp_path: Path) -> str:
    for number in range(4):
        write_tar(tmp_path / f"train-{number:03d}.tar", pairs(5, start=5 * number))
    return f"{tmp_path}/train-{{000..003}}.tar"


def keys(source: WebDataset, epoch: int = 0, seed: int = 0) -> list[str]:
    return [sample["__key__"] for sample in read_all(source, epoch=epoch, seed=seed)]


def test_contract(shards: str) -> None:
    check_stage(WebDataset(shards, shuffle=True, required=("jpg",)))
    assert host().stage_class("read.webdataset") is WebDataset


def test_samples_in_order(shards: str) -> None:
    source = WebDataset(shards)
    samples = list(read_all(source))
    assert [sample["__key__"] for sample in samples] == [f"{n:05d}" for n in range(20)]
    assert samples[7]["jpg"] == (7).to_bytes(2, "big") * 10
    assert samples[7]["cls"] == b"7"
    assert samples[7]["__url__"] == shards.replace("{000..003}", "001")
    with open(samples[7]["__url__"], "rb") as file:
        file.seek(samples[7]["__offset__"])
        assert file.read(20) == samples[7]["jpg"]


def test_shuffle_is_over_all_samples_and_depends_on_seed_and_epoch(shards: str) -> None:
    source = WebDataset(shards, shuffle=True)
    assert keys(source) == keys(source)
    assert keys(source) != keys(source, epoch=1)
    assert keys(source) != keys(source, seed=1)
    assert sorted(keys(source)) == [f"{number:05d}" for number in range(20)]
    first_half = {sample["__url__"] for sample in list(read_all(source))[:10]}
    assert len(first_half) > 2


def test_origin_is_that_of_the_sample(shards: str) -> None:
    source = WebDataset(shards, shuffle=True)
    for address in order(source):
        sample, origin = source.read(address), source.origin(address)
        assert tuple(origin) == (sample["__key__"], sample["__url__"], sample["__offset__"])


def test_B01_dots_in_folders_never_split(tmp_path: Path) -> None:
    members = [("a/22.0/1.1.png", b"p"), ("train.v1/0001.jpg", b"j")]
    source = WebDataset(write_tar(tmp_path / "a.tar", members))
    found = [(sample["__key__"], set(sample)) for sample in read_all(source)]
    meta = {"__key__", "__url__", "__offset__"}
    assert found == [("a/22.0/1", {"1.png", *meta}), ("train.v1/0001", {"jpg", *meta})]


def test_B02_fields_are_lower_case_and_a_collision_names_both(tmp_path: Path) -> None:
    members = [("x.JPG", b"1"), ("q.JPG", b"2"), ("q.jpg", b"3"), ("z.TestData.pth", b"4")]
    source = WebDataset(write_tar(tmp_path / "a.tar", members))
    assert source.read(0)["jpg"] == b"1"
    assert source.read(2)["testdata.pth"] == b"4"
    with pytest.raises(ValueError, match=r"a\.tar: 'q\.JPG' and 'q\.jpg' are one field"):
        source.read(1)
    assert "1 of 3 samples will fail" in cautions(source)[0]


def test_B04_a_key_that_returns_names_shard_and_key(tmp_path: Path) -> None:
    members = [(name, b"x") for name in ("0.jpg", "1.jpg", "0.txt", "1.txt")]
    source = WebDataset(write_tar(tmp_path / "a.tar", members))
    with pytest.raises(RunError, match=r"1 of 1 shards .*a\.tar: sample '0' returns"):
        order(source)
    assert len(cautions(source)) == 1


def test_B05_a_shards_end_ends_the_sample(tmp_path: Path) -> None:
    for name in ("s0", "s1"):
        write_tar(tmp_path / f"{name}.tar", [("img.jpg", name.encode())])
    samples = list(read_all(WebDataset(f"{tmp_path}/s*.tar")))
    assert [sample["jpg"] for sample in samples] == [b"s0", b"s1"]
    assert len({(sample["__url__"], sample["__key__"]) for sample in samples}) == 2


def test_B05_a_duplicate_fails_its_own_sample_only(tmp_path: Path) -> None:
    members = [("a.jpg", b"1"), ("a.jpg", b"2"), ("b.jpg", b"3")]
    source = WebDataset(write_tar(tmp_path / "a.tar", members))
    assert source.read(1)["jpg"] == b"3"
    with pytest.raises(ValueError, match=r"a\.tar: 'a\.jpg' occurs twice"):
        source.read(0)


def test_S1_a_sample_without_a_required_field_is_refused(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar", [*pairs(2), ("x.jpg", b"x")])
    source = WebDataset(path, required=("jpg", ".CLS"))
    assert problems(source) == []
    assert source.read(1)["cls"] == b"1"
    with pytest.raises(ValueError, match=r"a\.tar: sample 'x' lacks required cls; .*: x\.jpg"):
        source.read(2)
    assert source.origin(2).key == "x"


def test_a_required_field_that_is_nowhere_is_wrong_use(shards: str) -> None:
    said = problems(WebDataset(shards, required=("jpg", "clss")))
    assert said == ["no member field 'clss'; did you mean 'cls'? (required in every sample)"]


def test_S2_pipes_are_refused_and_pickles_stay_bytes(tmp_path: Path) -> None:
    assert "commands are never run" in problems(WebDataset("pipe:touch x"))[0]
    with pytest.raises(UsageError, match="commands are never run"):
        order(WebDataset("pipe:touch x"))
    pickled = pickle.dumps({"a": 1})
    path = write_tar(tmp_path / "a.tar", [("x.pkl", pickled), ("x.pyd", pickled)])
    sample = WebDataset(path).read(0)
    assert sample["pkl"] == sample["pyd"] == pickled


def test_S3_equal_base_names_in_two_folders(tmp_path: Path) -> None:
    paths = tuple(
        write_tar(tmp_path / folder / "train-000.tar", pairs(2, start=start))
        for folder, start in (("a", 0), ("b", 100))
    )
    for _ in range(2):
        assert keys(WebDataset(paths)) == ["00000", "00001", "00100", "00101"]


def test_a_compressed_shard_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar", pairs(2), "w:gz")
    (said,) = problems(WebDataset(path))
    assert "is compressed (gzip)" in said
    assert "read.WebDatasetStream" in said
    with pytest.raises(UsageError, match=r"read\.WebDatasetStream"):
        order(WebDataset(path))


def test_a_cut_shard_fails_the_run_and_is_warned_of(tmp_path: Path) -> None:
    good = write_tar(tmp_path / "a.tar", pairs(2, size=1000))
    cut = write_tar(tmp_path / "b.tar", pairs(2, size=1000))
    os.truncate(cut, 600)
    source = WebDataset((good, cut))
    assert problems(source) == []
    (said,) = cautions(source)
    assert said == f"{cut} at offset 0: is cut inside '00000.jpg', of 2000 bytes; the run will fail"
    with pytest.raises(RunError, match=r"1 of 2 shards cannot be used: .*b\.tar at offset 0"):
        order(source)


def test_a_shard_without_end_mark_is_read_with_a_caution(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar", pairs(1, size=1000))
    os.truncate(path, 512 + 2048)
    assert "1 of 1 shards have no end-of-archive mark" in cautions(WebDataset(path))[0]
    assert len(order(WebDataset(path))) == 1


def test_links_hold_no_data(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar", [("a.jpg", b"1")])
    with tarfile.open(path, "a") as archive:
        info = tarfile.TarInfo("a.cls")
        info.type, info.linkname = tarfile.LNKTYPE, "other.cls"
        archive.addfile(info)
    with pytest.raises(ValueError, match=r"'a\.cls' is a link"):
        WebDataset(path).read(0)


def test_an_archive_without_samples_is_refused(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar", [("README", b"hello")])
    assert "has no sample" in problems(WebDataset(path))[0]


def test_a_shard_changed_after_indexing_is_an_error(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar", pairs(3))
    source = WebDataset(path)
    assert len(order(source)) == 3
    write_tar(path, pairs(30))
    with pytest.raises(ValueError, match="was changed after it was indexed"):
        source.read(0)


def test_big_samples_are_read_member_by_member(tmp_path: Path) -> None:
    big = random.Random(0).randbytes((1 << 20) + 7)
    path = write_tar(tmp_path / "a.tar", [("a.npy", big), ("a.cls", b"1")])
    sample = WebDataset(path).read(0)
    assert sample["npy"] == big
    assert sample["cls"] == b"1"


@pytest.mark.parametrize("wrong", [{"shards": 3}, {"required": 5}, {"shuffle": "maybe"}])
def test_check_never_raises(wrong: dict[str, object]) -> None:
    given: dict[str, object] = {"shards": "x.tar", **wrong}
    assert isinstance(problems(WebDataset(**given)), list)  # type: ignore[arg-type]


def test_the_index_stays_when_the_stage_travels(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", pairs(500))
    source = WebDataset(tmp_path / "a.tar")
    assert len(order(source)) == 500
    travelled = pickle.dumps(source)
    assert len(travelled) < 500
    assert pickle.loads(travelled) == source
    assert keys(pickle.loads(pickle.dumps(pickle.loads(travelled)))) == keys(source)


@pytest.mark.parametrize("keep", [True, False])
def test_another_process_must_number_the_same_samples(shards: str, keep: bool) -> None:
    pattern = shards.replace("{000..003}", "*")
    fresh = pickle.dumps(WebDataset(pattern, keep_index=keep))
    source = WebDataset(pattern, keep_index=keep)
    assert len(order(source)) == 20
    planned = pickle.dumps(source)
    write_tar(Path(pattern.replace("*", "0005")), pairs(5, start=50))  # sorts before 001
    with pytest.raises(RunError, match=r"are not those that were indexed .*start again"):
        pickle.loads(planned).read(7)
    assert pickle.loads(fresh).read(7)["__key__"] == "00052"


# -- threads and open files --------------------------------------------------------


def open_files(folder: Path) -> list[str]:
    links = []
    for name in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
    return [link for link in links if link.startswith(str(folder))]


@pytest.fixture
def many(tmp_path: Path) -> Iterator[WebDataset]:
    for number in range(24):
        write_tar(tmp_path / f"{number:03d}.tar", pairs(4, start=4 * number))
    yield WebDataset(f"{tmp_path}/*.tar", shuffle=True, keep_index=False)
    assert open_files(tmp_path) == []


def test_one_reader_serves_any_number_of_threads(many: WebDataset, tmp_path: Path) -> None:
    addresses = order(many) * 20
    workers = _OPEN_SHARDS // 8  # so each reader may hold 8 shards, and closes them under reads
    with many.open(Worker(count=workers)) as read, ThreadPoolExecutor(8) as pool:
        for address, sample in zip(addresses, pool.map(read, addresses), strict=True):
            assert int(sample["__key__"]) == address
            assert sample["jpg"] == int(address).to_bytes(2, "big") * 10
            assert len(open_files(tmp_path)) <= 8 + 8 + 1
        assert len(open_files(tmp_path)) == 8


def test_order_needs_no_reader(many: WebDataset) -> None:
    rng = Rng(0, "read.webdataset").move(0, 0)
    assert set(many.addresses(0, rng)) == set(range(96))


def test_an_address_that_is_none(many: WebDataset) -> None:
    with pytest.raises(IndexError, match="no sample 96: the shards hold 96"):
        many.read(96)
