from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from bench.peers_envs import ENVIRONMENTS, MissingError, python_of
from bench.peers_pictures import (
    ABOUT,
    SIZES,
    Photographs,
    UnavailableError,
    described,
    make_pictures,
    photographs,
    source_name,
    split,
    wallpapers,
)
from PIL import Image

from bench import peers_envs, peers_pictures


def photograph(grey, width=900, height=600):
    return Image.new("RGB", (width, height), (grey, grey, grey))


GREYS = {"dune": 40, "storm": 120, "wood": 200}


def material():
    sources = [(name, lambda grey=grey: photograph(grey)) for name, grey in GREYS.items()]
    return Photographs("photographs made for a test", sources)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return make_pictures(tmp_path_factory.mktemp("cache"), material(), 40, 6, per_shard=10)


def grey_of(path):
    with Image.open(path) as picture:
        return round(float(np.asarray(picture).mean()))


# -- pictures --------------------------------------------------------------------------


def test_sizes_are_imagenets_on_average():
    assert np.mean(SIZES, axis=0) == pytest.approx([461, 388], abs=2)


def test_pictures_are_jpeg_files_of_these_sizes_in_a_folder_a_photograph(pictures):
    files = sorted(Path(pictures.files).glob("*/*.jpg"))
    assert len(files) == pictures.count == 40
    assert {path.parent.name for path in files} == {"class000", "class001"}
    widths = []
    for path in files:
        with Image.open(path) as picture:
            assert picture.format == "JPEG"
            assert picture.size in SIZES
            widths.append(picture.width)
    told = described(files)
    assert told["mean_width"] == round(np.mean(widths))
    assert told["mean_file_bytes"] == round(np.mean([path.stat().st_size for path in files]))


def test_training_and_validation_share_no_photograph(pictures):
    """A grey photograph gives pictures of its grey alone, by which they can be told."""
    folder = Path(pictures.files).parent
    greys = {
        part: {grey_of(path) for path in (folder / part).glob("*/*.jpg")}
        for part in ("train", "val")
    }
    assert greys["train"] | greys["val"] == set(GREYS.values())
    assert not greys["train"] & greys["val"]


def test_shards_hold_the_files_with_their_labels_mixed(pictures):
    files = {path.stem: path for path in Path(pictures.files).glob("*/*.jpg")}
    assert len(pictures.shards) == 4
    seen = {}
    for shard in pictures.shards:
        with tarfile.open(shard) as tar:
            found = {member.name: tar.extractfile(member).read() for member in tar}
        keys = [name[:-4] for name in found if name.endswith(".jpg")]
        assert len(keys) == 10
        labels = {key: int(found[f"{key}.cls"]) for key in keys}
        assert set(labels.values()) == {0, 1}
        for key, label in labels.items():
            assert found[f"{key}.jpg"] == files[key].read_bytes()
            assert files[key].parent.name == f"class{label:03d}"
        seen |= labels
    assert set(seen) == set(files)


def test_equal_arguments_give_equal_pictures_and_whole_ones_are_kept(tmp_path, pictures):
    again = make_pictures(tmp_path, material(), 40, 6, per_shard=10)
    for mine, other in zip(again.shards, pictures.shards, strict=True):
        assert Path(mine).read_bytes() == Path(other).read_bytes()
    marker = Path(again.files).parents[1] / ABOUT
    written = marker.stat().st_mtime_ns
    assert make_pictures(tmp_path, material(), 40, 6, per_shard=10) == again
    assert marker.stat().st_mtime_ns == written
    marker.unlink()  # as if it had been cut short
    assert make_pictures(tmp_path, material(), 40, 6, per_shard=10) == again
    assert marker.is_file()


def test_other_counts_are_other_pictures(tmp_path, pictures):
    assert Path(make_pictures(tmp_path, material(), 20, 6, 10).files).parents[1].name != (
        Path(pictures.files).parents[1].name
    )


def test_a_tenth_of_the_photographs_is_for_validation():
    parts = split([f"photo{index}" for index in range(32)])
    assert len(parts["val"]) == 3
    assert sorted(parts["train"] + parts["val"]) == list(range(32))
    assert parts == split([f"photo{index}" for index in range(32)])
    assert split(["alone"]) == {"train": [0], "val": [0]}


# -- photographs -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("wallpapers/Autumn/contents/images/1280x800.jpg", "wallpapers/Autumn"),
        ("wallpapers/Flow/contents/images_dark/5120x2880.jpg", "wallpapers/Flow"),
        ("mate/Elephants_3840x2160.jpg", "mate/Elephants"),
        ("mate/Elephants.jpg", "mate/Elephants"),
        ("640x480.jpg", "640x480"),
    ],
)
def test_all_sizes_of_a_photograph_have_one_name(path, name):
    assert source_name(Path(path)) == name


def test_a_folders_photographs_are_taken_once_in_their_largest_size(tmp_path):
    photograph(10, 500, 450).save(tmp_path / "dune_500x450.jpg")
    photograph(20, 800, 600).save(tmp_path / "dune_800x600.jpg")
    photograph(30).save(tmp_path / "drawing.png")
    photograph(40, 200, 100).save(tmp_path / "small.jpg")
    (tmp_path / "broken.jpg").write_bytes(b"no picture")
    found = photographs(tmp_path, pytest.fail)
    assert [name for name, _ in found.sources] == ["dune"]
    assert found.sources[0][1]().size == (800, 600)
    assert str(tmp_path) not in found.about


def test_a_folder_without_photographs_is_refused(tmp_path):
    with pytest.raises(UnavailableError, match="holds no JPEG file of 400 pixels or more a side"):
        photographs(tmp_path, pytest.fail)


def test_without_wallpapers_two_photographs_are_used_and_it_is_said(monkeypatch, tmp_path):
    pytest.importorskip("sklearn")
    monkeypatch.setattr(peers_pictures, "CACHE", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    told = []
    found = photographs(None, told.append)
    assert len(found.sources) == 2
    assert told == [
        "apt-get is not installed: no wallpapers; scikit-learn's two photographs are used, "
        "or give --pictures-from FOLDER"
    ]


def test_wallpapers_are_fetched_once_and_named_with_their_versions(monkeypatch, tmp_path):
    ran = []

    def run(words, cwd, **more):
        ran.append(words[0])
        if words[0] == "apt-get":
            (cwd / "mate-backgrounds_4%3a1.2_all.deb").touch()
        else:
            Path(words[-1]).mkdir(exist_ok=True)
            photograph(50).save(Path(words[-1]) / "Dune.jpg")
        return subprocess.CompletedProcess(words, 0)

    monkeypatch.setattr(subprocess, "run", run)
    for _ in range(2):
        found = wallpapers(tmp_path / "wallpapers")
        assert found.about == "photographs of Debian's mate-backgrounds 4:1.2"
        assert [name for name, _ in found.sources] == ["Dune"]
    assert ran == ["apt-get", "dpkg-deb"]


def test_a_fetch_that_fails_says_what_apt_said(monkeypatch, tmp_path):
    def run(words, **more):
        raise subprocess.CalledProcessError(100, words, stderr="E: one\nE: no such package\n")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(UnavailableError, match="apt-get download failed: E: no such package"):
        wallpapers(tmp_path / "wallpapers")


# -- environments ----------------------------------------------------------------------


def test_the_own_environment_is_this_python(tmp_path):
    assert python_of("", tmp_path) == sys.executable


def test_versions_of_the_libraries_are_pinned():
    assert all("==" in packages[0] for packages in ENVIRONMENTS.values())


def test_an_environment_is_made_once_for_its_packages(monkeypatch, tmp_path):
    ran = []

    def run(words, **more):
        ran.append(list(words))
        python = tmp_path / "env-dali" / "bin" / "python"
        python.parent.mkdir(parents=True, exist_ok=True)
        python.touch()

    monkeypatch.setattr(subprocess, "run", run)
    python = python_of("dali", tmp_path)
    assert python == str(tmp_path / "env-dali" / "bin" / "python")
    assert python_of("dali", tmp_path) == python
    assert [words[1:3] for words in ran] == [["-m", "venv"], ["-m", "pip"]]
    assert ran[1][-len(ENVIRONMENTS["dali"]) :] == list(ENVIRONMENTS["dali"])
    monkeypatch.setitem(peers_envs.ENVIRONMENTS, "dali", ("other==1",))
    python_of("dali", tmp_path)
    assert len(ran) == 4


def test_an_install_that_fails_says_why_and_leaves_nothing(monkeypatch, tmp_path):
    def run(words, **more):
        if "pip" in words:
            text = "WARNING: a\nERROR: No matching distribution found for x\nhint\n"
            raise subprocess.CalledProcessError(1, words, stderr=text)
        (tmp_path / "env-dali").mkdir()

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(MissingError, match="failed: ERROR: No matching distribution"):
        python_of("dali", tmp_path)
    assert not (tmp_path / "env-dali").exists()


def test_an_install_that_takes_too_long_is_given_up(monkeypatch, tmp_path):
    def run(words, timeout, **more):
        raise subprocess.TimeoutExpired(words, timeout)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(MissingError, match="python -m venv took over 300 s"):
        python_of("tf", tmp_path)


def test_what_is_kept_names_its_packages(tmp_path):
    folder = tmp_path / "env-tf" / "bin"
    folder.mkdir(parents=True)
    (folder / "python").touch()
    (tmp_path / "env-tf" / "stoker-bench.json").write_text(json.dumps(ENVIRONMENTS["tf"]))
    assert python_of("tf", tmp_path) == str(folder / "python")
