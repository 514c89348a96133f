from __future__ import annotations

import io
import json
import os
import tarfile

import numpy as np
import pytest
from PIL import Image
from webdataset.tariterators import group_by_keys, tar_file_expander

from stoker.errors import UsageError
from stoker_plugins.shards import make_shards, write_shards


def members(path):
    with tarfile.open(path) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}


def numbered(count, start=0):
    return [{"__key__": f"{i:04d}", "txt": f"text {i}"} for i in range(start, start + count)]


def picture(path, value=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (4, 4), value).save(path)
    return path


def folder_of(root, classes=("cat", "dog"), each=10):
    for index, name in enumerate(classes):
        for i in range(each):
            picture(root / name / f"{i}.png", 10 * i + index)
    return root


# -- write_shards ----------------------------------------------------------------------


def test_samples_come_back(tmp_path):
    array = np.arange(6).reshape(2, 3)
    samples = [
        {
            "__key__": f"deep/folder.v1/{i}",
            "__url__": "elsewhere",
            "png": b"\x89PNG" + bytes([i]),
            "cls": i,
            "score": 0.5,
            "txt": "grüße",
            "json": {"boxes": [[1, 2]], "name": "ä"},
            "npy": array,
            "left.npy": array[0],
            "raw": bytearray(b"raw"),
        }
        for i in range(3)
    ]
    assert write_shards(samples, tmp_path / "out") == (3, 1)
    with open(tmp_path / "out/train-000000.tar", "rb") as file:
        read = list(group_by_keys(tar_file_expander([{"url": "s", "stream": file}])))
    assert [sample["__key__"] for sample in read] == [f"deep/folder.v1/{i}" for i in range(3)]
    for i, sample in enumerate(read):
        assert sample["png"] == b"\x89PNG" + bytes([i])
        assert sample["cls"] == str(i).encode()
        assert sample["score"] == b"0.5"
        assert sample["txt"].decode() == "grüße"
        assert json.loads(sample["json"]) == {"boxes": [[1, 2]], "name": "ä"}
        assert (np.load(io.BytesIO(sample["npy"]), allow_pickle=False) == array).all()
        assert (np.load(io.BytesIO(sample["left.npy"]), allow_pickle=False) == array[0]).all()
        assert sample["raw"] == b"raw"


def test_shards_are_numbered_and_filled(tmp_path):
    assert write_shards(iter(numbered(7)), tmp_path, "val", 3) == (7, 3)
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"val-{i:06d}.tar" for i in range(3)]
    counts = [len(members(path)) for path in sorted(tmp_path.iterdir())]
    assert counts == [3, 3, 1]
    assert write_shards(numbered(3), tmp_path / "exact", samples_per_shard=3) == (3, 1)
    assert write_shards([], tmp_path / "none") == (0, 0)
    assert list((tmp_path / "none").iterdir()) == []


def test_equal_samples_give_equal_bytes(tmp_path):
    for name in ("a", "b"):
        write_shards(numbered(5), tmp_path / name)
    one, other = (tmp_path / name / "train-000000.tar" for name in ("a", "b"))
    assert one.read_bytes() == other.read_bytes()
    with tarfile.open(one) as tar:
        for member in tar:
            assert (member.mtime, member.uid, member.gid, member.mode) == (0, 0, 0, 0o644)
            assert (member.uname, member.gname) == ("", "")


def test_long_and_foreign_keys(tmp_path):
    key = "ordner/" + "x" * 200 + "/日本語"
    write_shards([{"__key__": key, "txt": "a"}], tmp_path)
    assert list(members(tmp_path / "train-000000.tar")) == [f"{key}.txt"]


def test_a_shard_that_failed_leaves_only_whole_ones(tmp_path):
    def samples():
        yield from numbered(3)
        raise OSError("disk gone")

    with pytest.raises(OSError, match="disk gone"):
        write_shards(samples(), tmp_path, samples_per_shard=2)
    assert [path.name for path in tmp_path.iterdir()] == ["train-000000.tar"]


@pytest.mark.parametrize("key", [None, "", 7, "a/1.1", "a.b", "folder/", "/rooted/a"])
def test_B01_keys_that_would_not_come_back_are_refused(tmp_path, key):
    with pytest.raises(UsageError, match=r"__key__=.*without a dot after the last '/'"):
        write_shards([{"__key__": key, "txt": "x"}], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_B02_fields_are_in_lower_case_and_collisions_are_refused(tmp_path):
    write_shards([{"__key__": "z", "TestData.TXT": "x"}], tmp_path)
    assert list(members(tmp_path / "train-000000.tar")) == ["z.testdata.txt"]
    with pytest.raises(UsageError, match=r"fields 'jpg' and 'JPG'.*rename one"):
        write_shards([{"__key__": "q", "jpg": b"1", "JPG": b"2"}], tmp_path)


def test_B05_a_key_twice_in_a_shard_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"key '0000' occurs twice in .*train-000000"):
        write_shards(numbered(2) + numbered(1), tmp_path)
    assert write_shards(numbered(1) + numbered(1), tmp_path, samples_per_shard=1) == (2, 2)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("png", np.zeros((2, 2)), "ndarray cannot be written.*encode pictures first"),
        ("txt", {"a": 1}, "dict cannot be written.*'json'"),
        ("txt", None, "NoneType cannot be written"),
        ("json", {1, 2}, "not JSON serializable"),
        ("npy", np.array([{}], dtype=object), "allow_pickle=False"),
    ],
)
def test_values_that_cannot_be_written_are_named(tmp_path, field, value, words):
    with pytest.raises(UsageError, match=rf"sample 'a', field '{field}': .*{words}"):
        write_shards([{"__key__": "a", field: value}], tmp_path)


def test_samples_without_fields_and_empty_shards_are_refused(tmp_path):
    with pytest.raises(UsageError, match="sample 'a' has no fields"):
        write_shards([{"__key__": "a", "__url__": "u"}], tmp_path)
    with pytest.raises(UsageError, match="samples_per_shard=0: allowed is at least 1"):
        write_shards(numbered(1), tmp_path, samples_per_shard=0)


# -- make_shards -----------------------------------------------------------------------


def test_a_folder_becomes_shards(tmp_path):
    source = folder_of(tmp_path / "pets")
    picture(source / "dog" / "old" / "9.JPG")
    (source / "cat" / "notes.txt").write_text("x")
    (source / "cat" / ".hidden.png").write_text("x")
    picture(source / "stray.png")
    result = make_shards(source, tmp_path / "out", samples_per_shard=8)
    assert result == {
        "out": str(tmp_path / "out"), "samples": 21, "shards": 3, "train": 21, "val": 0,
        "classes": 2, "skipped": 3,
    }  # fmt: skip
    assert json.dumps(result)
    assert json.loads((tmp_path / "out/classes.json").read_text()) == ["cat", "dog"]
    found = {}
    for path in sorted((tmp_path / "out").glob("train-*.tar")):
        found |= members(path)
    assert found["cat/3.png"] == (source / "cat/3.png").read_bytes()
    assert found["dog/old/9.jpg"] == (source / "dog/old/9.JPG").read_bytes()
    assert (found["cat/3.cls"], found["dog/old/9.cls"]) == (b"0", b"1")
    assert len(found) == 42
    first = list(members(tmp_path / "out/train-000000.tar"))
    assert {name.split("/")[0] for name in first} == {"cat", "dog"}  # mixed, not sorted


def test_the_split_is_stable(tmp_path):
    def val_of(out):
        return {name for path in out.glob("val-*.tar") for name in members(path)}

    source = folder_of(tmp_path / "pets", each=40)
    first = make_shards(source, tmp_path / "a", val_share=0.25)
    assert 8 <= first["val"] <= 32
    assert first["train"] + first["val"] == first["samples"] == 80
    make_shards(source, tmp_path / "b", val_share=0.25)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
    picture(source / "dog" / "new.png")
    make_shards(source, tmp_path / "c", val_share=0.25)
    a, c = val_of(tmp_path / "a"), val_of(tmp_path / "c")
    assert a == {name for name in c if not name.startswith("dog/new")}
    make_shards(source, tmp_path / "d", val_share=0.5)
    assert c < val_of(tmp_path / "d")


def test_B01_names_with_dots_and_equal_stems(tmp_path):
    source = tmp_path / "pets"
    for name in ("1.1.png", "Track 2.0 (x).png", "a.png", "a.jpg"):
        picture(source / "v1.0" / name)
    make_shards(source, tmp_path / "out")
    assert sorted(members(tmp_path / "out/train-000000.tar")) == sorted(
        f"v1.0/{stem}.{suffix}"
        for stem, png in (("1_1", "png"), ("Track 2_0 (x)", "png"), ("a_png", "png"),
                          ("a_jpg", "jpg"))
        for suffix in (png, "cls")
    )  # fmt: skip


def test_names_that_cannot_be_told_apart_are_refused(tmp_path):
    for name in ("a.b.png", "a_b.png"):
        picture(tmp_path / "pets" / "cat" / name)
    with pytest.raises(UsageError, match=r"would share key 'cat/a_b_png'; rename one"):
        make_shards(tmp_path / "pets", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_linked_class_folders_are_followed_and_loops_end(tmp_path):
    elsewhere = folder_of(tmp_path / "store", ("n01",), 3)
    source = folder_of(tmp_path / "pets", ("cat",), 2)
    os.symlink(elsewhere / "n01", source / "dog")
    os.symlink(source, source / "cat" / "loop")
    result = make_shards(source, tmp_path / "out")
    assert (result["samples"], result["classes"]) == (5, 2)


def test_what_is_there_is_kept_unless_forced(tmp_path):
    source, out = folder_of(tmp_path / "pets", each=20), tmp_path / "out"
    make_shards(source, out, val_share=0.3, samples_per_shard=5)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(UsageError, match="is not empty"):
        make_shards(source, out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    (out / "notes.txt").write_text("mine")
    make_shards(source, out, force=True)
    assert sorted(path.name for path in out.iterdir()) == [
        "classes.json", "notes.txt", "train-000000.tar",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("build", "share", "words"),
    [
        (lambda root: None, 0.0, "is no folder; give one that holds a folder for each class"),
        (lambda root: root.mkdir(), 0.0, r"holds no pictures in class folders, as in pets/cat"),
        (lambda root: picture(root / "a.png"), 0.0, "holds no pictures in class folders"),
        (lambda root: picture(root / "cat" / "a.png"), 0.5, r"leaves [01] to train and [01] to"),
        (folder_of, 1.0, "val_share=1.0: allowed is from 0 to below 1"),
        (folder_of, -0.1, "val_share=-0.1: allowed"),
    ],
)
def test_wrong_use_is_named_and_writes_nothing(tmp_path, build, share, words):
    build(tmp_path / "pets")
    with pytest.raises(UsageError, match=words):
        make_shards(tmp_path / "pets", tmp_path / "out", val_share=share)
    assert not (tmp_path / "out").exists()
