import os
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

from stoker.errors import UsageError
from stoker.plugins import host
from stoker.rng import Rng
from stoker.testing import check_stage, order, read_all
from stoker_plugins.read import Files
from tests.plugins.read.helpers import cautions, problems


def put(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    put(tmp_path, "dog/b.jpg", "dog/a.JPEG", "cat/deep/er/x.y.png", "cat/notes.txt")
    return tmp_path


def test_contract(tree: Path) -> None:
    check_stage(Files(tree, shuffle=True))
    check_stage(Files(str(tree), extensions=("npy",)))
    assert host().stage_class("read.files") is Files


def test_a_file_is_a_sample(tree: Path) -> None:
    source = Files(tree)
    assert source.classes == ("cat", "dog")
    assert problems(source) == cautions(source) == []
    assert list(read_all(source)) == [
        {
            "__key__": "cat/deep/er/x.y",
            "__url__": f"{tree}/cat/deep/er/x.y.png",
            "png": b"cat/deep/er/x.y.png",
            "cls": 0,
        },
        {
            "__key__": "dog/a",
            "__url__": f"{tree}/dog/a.JPEG",
            "jpeg": b"dog/a.JPEG",
            "cls": 1,
        },
        {"__key__": "dog/b", "__url__": f"{tree}/dog/b.jpg", "jpg": b"dog/b.jpg", "cls": 1},
    ]


def test_origin_reads_nothing(tree: Path) -> None:
    source = Files(tree)
    address = order(source)[0]
    os.unlink(tree / "cat/deep/er/x.y.png")
    assert tuple(source.origin(address)) == (
        "cat/deep/er/x.y",
        f"{tree}/cat/deep/er/x.y.png",
        None,
    )
    with pytest.raises(FileNotFoundError, match=r"x\.y\.png"):
        source.read(address)


def test_shuffle_depends_on_seed_and_epoch(tmp_path: Path) -> None:
    put(tmp_path, *(f"c/{number:03d}.jpg" for number in range(50)))
    source = Files(tmp_path, shuffle=True)
    assert order(source) == order(source)
    assert order(source) != order(source, epoch=1)
    assert order(source) != order(source, seed=1)
    assert sorted(order(source)) == order(Files(tmp_path))


def test_addresses_are_packed_and_can_be_sliced(tmp_path: Path) -> None:
    put(tmp_path, *(f"c/{number:03d}.jpg" for number in range(50)))
    source = Files(tmp_path, shuffle=True)
    addresses: Any = source.addresses(0, Rng(0, "read.files"))
    assert list(addresses[3::7]) == list(addresses)[3::7]
    assert pickle.loads(pickle.dumps(addresses[3:7].tolist())) == list(addresses)[3:7]
    assert addresses[-1] == list(addresses)[-1]
    assert dict.fromkeys(addresses)  # hashable
    assert source._listing.nbytes < 15 * 50
    assert sys.getsizeof(addresses) < 100


def test_what_was_listed_stays_when_files_come(tree: Path) -> None:
    source = Files(tree)
    addresses = order(source)
    put(tree, "ant/a.jpg", "cat/a.jpg")
    elsewhere = pickle.loads(pickle.dumps(source))  # a worker that lists nothing
    assert [elsewhere.read(address)["cls"] for address in addresses] == [0, 1, 1]


def test_hidden_entries_are_left_out_and_links_followed_once(tree: Path) -> None:
    put(tree, ".git/a.jpg", "cat/._x.jpg", "cat/.cache/a.jpg", "loose.jpg")
    (tree / "cat" / "loop").symlink_to(tree / "cat")
    (tree / "owl").symlink_to(tree / "dog")
    assert Files(tree).classes == ("cat", "dog", "owl")
    found = [path for _, path in order(Files(tree))]
    assert found == ["cat/deep/er/x.y.png", "dog/a.JPEG", "dog/b.jpg", "owl/a.JPEG", "owl/b.jpg"]


def test_extensions_may_be_compound(tmp_path: Path) -> None:
    put(tmp_path, "c/scan.NII.gz", "c/other.gz", "c/x.nii")
    source = Files(tmp_path, extensions=(".nii.gz", "gz"))
    fields = [set(sample) - {"__key__", "__url__", "cls"} for sample in read_all(source)]
    assert fields == [{"gz"}, {"nii.gz"}]
    assert [sample["__key__"] for sample in read_all(source)] == ["c/other", "c/scan"]


def test_a_class_without_files_still_counts(tree: Path) -> None:
    (tree / "bee").mkdir()
    source = Files(tree)
    assert problems(source) == []
    assert cautions(source) == [
        f"class folder 'bee' in {str(tree)!r} holds no file to read; it still counts as a class"
    ]
    assert [sample["cls"] for sample in read_all(source)] == [1, 2, 2]


@pytest.mark.parametrize(
    ("names", "root", "says"),
    [
        ((), "missing", "no such folder"),
        (("file/x",), "file/x", "is a file"),
        (("empty/.hidden",), "empty", "holds nothing: no class folders"),
        (("flat/a.jpg", "flat/b.PNG"), "flat", "holds 2 files to read but no class folders"),
        (
            ("other/c/a.tif2", "other/c/b.txt", "other/c/d.txt"),
            "other",
            "endings there: 2 with .txt, 1 with .tif2",
        ),
        (("hollow/c/.x",), "hollow", "endings there: none"),
    ],
)
def test_what_is_wrong_with_a_tree_is_one_line(
    tmp_path: Path, names: tuple[str, ...], root: str, says: str
) -> None:
    put(tmp_path, *names)
    source = Files(tmp_path / root)
    (said,) = problems(source)
    assert says in said
    assert "\n" not in said
    with pytest.raises(UsageError, match="root="):
        order(source)


@pytest.mark.parametrize("wrong", [{"root": 3}, {"root": "a\0b"}, {"extensions": "jpg"}])
def test_check_never_raises(wrong: dict[str, object]) -> None:
    given: dict[str, object] = {"root": "x", **wrong}
    assert isinstance(problems(Files(**given)), list)  # type: ignore[arg-type]


def test_no_extensions_match_nothing(tree: Path) -> None:
    assert "(extensions is empty)" in problems(Files(tree, extensions=()))[0]


def test_B02_one_case_policy_and_a_collision_names_both(tree: Path) -> None:
    put(tree, "dog/q.JPG", "dog/q.jpg")
    (said,) = problems(Files(tree))
    assert "'dog/q.JPG' and 'dog/q.jpg' are one field" in said
    with pytest.raises(UsageError, match="are one field"):
        order(Files(tree))


def test_one_stem_with_two_formats_is_two_samples(tree: Path) -> None:
    put(tree, "dog/b.png")
    assert [sample["__url__"] for sample in read_all(Files(tree))][-2:] == [
        f"{tree}/dog/b.jpg",
        f"{tree}/dog/b.png",
    ]


def test_an_order_travels_to_another_process_and_is_compared_by_content(tree: Path) -> None:
    source = Files(tree, shuffle=True)
    first, again, other = (
        source.addresses(epoch, Rng(0, "x").move(epoch, 0)) for epoch in (0, 0, 7)
    )
    assert list(pickle.loads(pickle.dumps(first))) == list(first)
    assert first == again
    assert (first == other) == (list(first) == list(other))
    assert first != list(first)


def test_B01_B05_dots_in_folders_never_split_and_equal_names_stay_apart(tmp_path: Path) -> None:
    put(tmp_path, "train.v1/22.0/1.jpg", "train.v1/22.1/1.jpg", "train.v2/22.0/1.jpg")
    assert [sample["__key__"] for sample in read_all(Files(tmp_path))] == [
        "train.v1/22.0/1",
        "train.v1/22.1/1",
        "train.v2/22.0/1",
    ]
