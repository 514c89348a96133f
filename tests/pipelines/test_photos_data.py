from __future__ import annotations

import io
import json
import sys
import tarfile

import numpy as np
import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

from stoker.errors import UsageError
from stoker_pipelines import photos_data
from stoker_pipelines.photos_data import ensure_photos, make_photos

LEFT, RIGHT = (200, 40, 30), (30, 40, 200)


def samples_of(folder, part):
    found = {}
    for path in sorted(folder.glob(f"{part}-*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                key, suffix = member.name.split(".")
                found.setdefault(key, {})[suffix] = tar.extractfile(member).read()
    return found


def pictures_of(folder, part):
    return [
        (int(sample["cls"]), Image.open(io.BytesIO(sample["jpg"])))
        for sample in samples_of(folder, part).values()
    ]


def halves(path, size=(120, 90), left=LEFT, right=RIGHT):
    """Write a picture whose left half has one colour and whose right half another."""
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = Image.new("RGB", size, left)
    picture.paste(right, (size[0] // 2, 0, *size))
    picture.save(path)


def test_classes_are_photograph_and_rotation_in_equal_shares(photos_folder):
    assert json.loads((photos_folder / "classes.json").read_text()) == [
        *(f"china, {degrees} degrees" for degrees in (0, 90, 180, 270)),
        *(f"flower, {degrees} degrees" for degrees in (0, 90, 180, 270)),
    ]
    for part, count in (("train", 64), ("val", 32)):
        labels = np.bincount([label for label, _ in pictures_of(photos_folder, part)])
        assert labels.tolist() == [count // 8] * 8


def test_pictures_are_as_large_as_those_of_imagenet(photos_folder):
    samples = samples_of(photos_folder, "train").values()
    pictures = [Image.open(io.BytesIO(sample["jpg"])) for sample in samples]
    assert {(picture.format, picture.mode) for picture in pictures} == {("JPEG", "RGB")}
    widths, heights = zip(*(picture.size for picture in pictures), strict=True)
    assert 420 < np.mean(widths) < 500
    assert 340 < np.mean(heights) < 420
    assert len(set(zip(widths, heights, strict=True))) >= 4
    assert 60_000 < np.mean([len(sample["jpg"]) for sample in samples]) < 130_000


def test_a_crop_turned_back_is_a_part_of_its_photograph(photos_folder):
    wholes = [photograph.load() for photograph in photos_data._shipped().photographs]
    for label, picture in pictures_of(photos_folder, "train")[:16]:
        photograph, quarter = divmod(label, 4)
        upright = np.rot90(np.asarray(picture), -quarter)
        left = np.asarray(wholes[photograph].crop((0, 0, 320, 427)))
        # Rows of sky and trees, or of leaf and flower, keep their order from top to bottom.
        wanted = left.mean((0, 1))
        assert np.abs(upright.mean((0, 1)) - wanted).max() < 40
        if photograph == 0:
            top, bottom = upright[: len(upright) // 4], upright[-len(upright) // 4 :]
            assert top.mean() > bottom.mean()


def test_no_pixel_is_in_both_parts(tmp_path):
    for name in ("a", "b"):
        halves(tmp_path / "in" / f"{name}.png")
    make_photos(tmp_path / "out", from_=tmp_path / "in", train=24, val=24)
    for part, colour in (("train", LEFT), ("val", RIGHT)):
        for _, picture in pictures_of(tmp_path / "out", part):
            assert np.abs(np.asarray(picture).astype(int) - colour).max() <= 4


def test_it_is_the_same_every_time(photos_folder, tmp_path):
    result = make_photos(tmp_path / "again", train=64, val=32, samples_per_shard=40)
    assert result == {
        "out": str(tmp_path / "again"), "samples": 96, "shards": 3,
        "train": 64, "val": 32, "classes": 8, "skipped": 0,
    }  # fmt: skip
    assert json.dumps(result)
    for path in (tmp_path / "again").iterdir():
        assert path.read_bytes() == (photos_folder / path.name).read_bytes()
    make_photos(tmp_path / "other", train=8, val=8, seed=1)
    other = samples_of(tmp_path / "other", "train")["000000"]
    assert other != samples_of(photos_folder, "train")["000000"]


def test_outputs_are_whole_or_not_there(tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="is not empty"):
        make_photos(tmp_path / "out", train=8, val=8)
    make_photos(tmp_path / "out", train=8, val=8, force=True, samples_per_shard=4)
    make_photos(tmp_path / "out", train=8, val=8, force=True)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "classes.json", "notes.txt", "photos.json", "train-000000.tar", "val-000000.tar",
    ]  # fmt: skip

    def broken(*given):
        raise RuntimeError("no more")

    monkeypatch.setattr(photos_data, "_cut", broken)
    with pytest.raises(RuntimeError, match="no more"):
        make_photos(tmp_path / "other", train=8, val=8)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("given", [{"train": 0}, {"val": -1}])
def test_counts_are_at_least_one(tmp_path, given):
    name, value = next(iter(given.items()))
    with pytest.raises(UsageError, match=f"{name}={value}: allowed is at least 1"):
        make_photos(tmp_path / "out", **given)
    assert list(tmp_path.iterdir()) == []


# -- a person's own pictures -----------------------------------------------------------


def test_class_folders_are_the_classes(tmp_path):
    folder = tmp_path / "in"
    for number in range(3):
        halves(folder / "cat" / "young" / f"{number}.png", left=(250, 250, 250))
        halves(folder / "dog" / f"{number}.jpg", left=(5, 5, 5))
    halves(folder / "loose.png")
    halves(folder / ".hidden" / "x.png")
    (folder / "dog" / "notes.txt").write_text("not a picture")
    result = make_photos(tmp_path / "out", from_=folder, train=30, val=6)
    assert (result["classes"], result["skipped"]) == (2, 2)
    assert json.loads((tmp_path / "out" / "classes.json").read_text()) == ["cat", "dog"]
    pictures = pictures_of(tmp_path / "out", "train")
    for label, picture in pictures:
        assert np.asarray(picture).mean() == pytest.approx([250, 5][label], abs=4)
    assert {label for label, _ in pictures} == {0, 1}


@pytest.mark.parametrize("place", ["", "only/", "only/one/"])
def test_without_class_folders_the_rotation_is_the_class(tmp_path, place):
    ramp = np.linspace(0, 255, 90).astype(np.uint8)  # dark above, bright below
    (tmp_path / "in" / place).mkdir(parents=True)
    for number in range(3):
        picture = Image.fromarray(np.repeat(ramp[:, None], 120, axis=1))
        picture.save(tmp_path / "in" / place / f"{number}.png")
    make_photos(tmp_path / "out", from_=tmp_path / "in", train=24, val=4)
    assert json.loads((tmp_path / "out" / "classes.json").read_text())[1] == "90 degrees"
    pictures = pictures_of(tmp_path / "out", "train")
    assert np.bincount([label for label, _ in pictures]).tolist() == [6, 6, 6, 6]
    for label, picture in pictures:
        upright = np.rot90(np.asarray(picture), -label)
        assert upright[:9].mean() + 40 < upright[-9:].mean()


def test_one_picture_meets_all_rotations(tmp_path):
    halves(tmp_path / "in" / "one.png")
    make_photos(tmp_path / "out", from_=tmp_path / "in", train=8, val=8)
    labels = [label for label, _ in pictures_of(tmp_path / "out", "train")]
    assert np.bincount(labels).tolist() == [2, 2, 2, 2]


def test_B10_exif_orientation(tmp_path):
    folder = tmp_path / "in"
    halves(folder / "a.png", size=(120, 96))
    exif = Image.Exif()
    exif[0x0112] = 8  # to be turned by 90 degrees counterclockwise
    with Image.open(folder / "a.png") as upright:
        stored = upright.transpose(Image.Transpose.ROTATE_270)
    stored.save(folder / "a.jpg", exif=exif, quality=95, subsampling=0)
    (folder / "a.png").unlink()
    make_photos(tmp_path / "out", from_=folder, train=4, val=4)
    for _, crop in pictures_of(tmp_path / "out", "train"):
        assert np.abs(np.asarray(crop).astype(int) - LEFT).mean() < 6
    Image.new("L", (64, 64), 77).save(folder / "b.png")
    Image.new("RGBA", (64, 64), (9, 9, 9, 255)).save(folder / "c.webp", lossless=True)
    result = make_photos(tmp_path / "more", from_=folder, train=6, val=6)
    assert (result["train"], result["skipped"]) == (6, 0)


def test_B12_what_cannot_be_used_is_left_out_and_counted(tmp_path):
    folder = tmp_path / "in"
    for number in range(4):
        halves(folder / f"{number}.png")
    (folder / "empty.png").write_bytes(b"")
    (folder / "page.jpg").write_text("<html>")
    halves(folder / "tiny.png", size=(20, 20))
    result = make_photos(tmp_path / "out", from_=folder, train=14, val=7)
    assert (result["train"], result["val"], result["skipped"]) == (8, 4, 3)
    assert len(samples_of(tmp_path / "out", "train")) == 8
    assert ensure_photos(tmp_path / "out") == {"train": 8, "val": 4, "classes": 4}


def test_a_folder_without_use_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"missing is no folder; give one that holds pictures"):
        make_photos(tmp_path / "out", from_=tmp_path / "missing")
    folder = tmp_path / "in"
    folder.mkdir()
    with pytest.raises(UsageError, match=r"in holds no pictures among 0 files; known suffixes"):
        make_photos(tmp_path / "out", from_=folder)
    (folder / "notes.txt").write_text("text")
    with pytest.raises(UsageError, match=r"in holds no pictures among 1 files; .* jpg"):
        make_photos(tmp_path / "out", from_=folder)
    with pytest.raises(UsageError, match=r"notes\.txt is no folder"):
        make_photos(tmp_path / "out", from_=folder / "notes.txt")
    (folder / "page.jpg").write_text("<html>")
    wanted = r"none of the pictures chosen for 'train' .* page\.jpg: .*HTML"
    with pytest.raises(UsageError, match=wanted):
        make_photos(tmp_path / "out", from_=folder, train=4, val=4)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_links_are_followed_but_not_in_circles(tmp_path):
    halves(tmp_path / "elsewhere" / "cat" / "1.png")
    halves(tmp_path / "in" / "dog" / "1.png")
    (tmp_path / "in" / "cat").symlink_to(tmp_path / "elsewhere" / "cat")
    (tmp_path / "in" / "dog" / "up").symlink_to(tmp_path / "in")
    result = make_photos(tmp_path / "out", from_=tmp_path / "in", train=4, val=4)
    assert (result["classes"], result["skipped"]) == (2, 0)


# -- on the command line, and on first use ---------------------------------------------


def test_the_command_takes_a_folder_by_from(tmp_path):
    halves(tmp_path / "in" / "one.png")
    app = typer.Typer()
    app.command()(make_photos)
    given = ["--from", str(tmp_path / "in"), "--train", "4", "--val", "4"]
    result = CliRunner().invoke(app, [str(tmp_path / "out"), *given], standalone_mode=False)
    assert result.exit_code == 0, result.output
    assert result.return_value["classes"] == 4


def test_without_scikit_learn_it_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    for make in (make_photos, ensure_photos):
        with pytest.raises(UsageError, match=r"pip install 'stoker\[demo\]'.* --from"):
            make(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_data_that_is_there_is_not_made_again(photos_folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    assert ensure_photos(photos_folder) == {"train": 64, "val": 32, "classes": 8}


def test_another_process_may_make_it_at_the_same_time(tmp_path, monkeypatch):
    def late(out):
        make_photos(out, train=8, val=8)
        raise UsageError("was filled by somebody else in the meantime")

    monkeypatch.setattr(photos_data, "make_photos", late)
    assert ensure_photos(tmp_path / "out")["train"] == 8
