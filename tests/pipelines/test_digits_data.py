from __future__ import annotations

import io
import json
import sys
import tarfile

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from stoker.errors import UsageError
from stoker_pipelines import digits_data
from stoker_pipelines.digits_data import ensure_digits, make_digits


def samples_of(folder, part):
    found = {}
    for path in sorted(folder.glob(f"{part}-*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                key, suffix = member.name.split(".")
                found.setdefault(key, {})[suffix] = tar.extractfile(member).read()
    return found


def test_every_digit_is_there_once_and_unchanged(digits_folder):
    train, val = samples_of(digits_folder, "train"), samples_of(digits_folder, "val")
    assert not train.keys() & val.keys()
    both = {**train, **val}
    digits = load_digits()
    assert len(both) == len(digits.target) == 1797
    for row in range(0, 1797, 97):
        sample = both[f"{row:04d}"]
        image = Image.open(io.BytesIO(sample["png"]))
        assert (image.mode, image.size, image.format) == ("L", (8, 8), "PNG")
        assert (np.rint(np.asarray(image) / 255 * 16) == digits.images[row]).all()
        assert int(sample["cls"]) == digits.target[row]


def test_the_split_holds_the_same_share_of_every_digit(digits_folder):
    labels = {
        part: np.bincount([int(s["cls"]) for s in samples_of(digits_folder, part).values()])
        for part in ("train", "val")
    }
    share = labels["val"] / (labels["train"] + labels["val"])
    assert len(share) == 10
    assert np.abs(share - 0.2).max() < 0.005


def test_it_is_the_same_every_time_and_counted(digits_folder, tmp_path):
    result = make_digits(tmp_path / "again")
    assert result == {
        "out": str(tmp_path / "again"), "samples": 1797, "shards": 4, "train": 1438, "val": 359,
    }  # fmt: skip
    assert json.dumps(result)
    for path in (tmp_path / "again").iterdir():
        assert path.read_bytes() == (digits_folder / path.name).read_bytes()


def test_shares_and_shards_can_be_chosen(tmp_path):
    out = tmp_path / "out"
    result = make_digits(out, val_share=0.5, samples_per_shard=300)
    assert abs(result["val"] - 898) < 10
    assert result["shards"] == len(list(out.glob("*.tar"))) == 6
    with pytest.raises(UsageError, match="is not empty"):
        make_digits(out)
    make_digits(out, force=True)
    assert len(list(out.glob("*.tar"))) == 4
    for share in (0.0, 1.0):
        with pytest.raises(UsageError, match=f"val_share={share}: allowed is above 0"):
            make_digits(tmp_path / "other", val_share=share)


def test_without_scikit_learn_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(UsageError, match=r"pip install 'stoker\[demo\]'"):
        make_digits(tmp_path / "out")
    with pytest.raises(UsageError, match=r"pip install 'stoker\[demo\]'"):
        ensure_digits(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_data_that_is_there_is_not_made_again(digits_folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    assert ensure_digits(digits_folder) == {"train": 1438, "val": 359}


def test_missing_data_is_made_in_silence(tmp_path, capfd):
    out = tmp_path / "deep" / "digits"
    assert ensure_digits(out) == {"train": 1438, "val": 359}
    assert len(list(out.glob("*.tar"))) == 4
    assert capfd.readouterr() == ("", "")


def test_another_process_may_make_it_at_the_same_time(tmp_path, monkeypatch):
    def late(out):
        make_digits(out)
        raise UsageError("was filled by somebody else in the meantime")

    monkeypatch.setattr(digits_data, "make_digits", late)
    assert ensure_digits(tmp_path / "out")["train"] == 1438


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="is not empty"):
        ensure_digits(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
