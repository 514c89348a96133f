"""Crops of photographs in ImageNet's sizes, as shards of JPEG pictures.

The photographs are the two that scikit-learn carries, or a person's own.
"""

from __future__ import annotations

import io
import json
import os
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from PIL import Image

from stoker.errors import UsageError
from stoker.measure.host import cores
from stoker.rng import Rng, stable_key
from stoker.sample import KEY, Sample
from stoker_plugins import decode
from stoker_plugins.folders import new_folder
from stoker_plugins.shards import CLASSES, PICTURES, SPLIT_SHARDS, write_shards

COUNTS = "photos.json"
"""The file beside the shards that holds their counts; it marks the data as whole."""

ROTATIONS = (0, 90, 180, 270)
"""Degrees, counterclockwise."""

# ImageNet's pictures measure about 470 x 390 on average, and most are 500 on their longer
# side; so do these, drawn with equal chances: width and height in pixels.
_SIZES = (
    *[(500, 375)] * 9,
    *[(375, 500)] * 3,
    *[(500, 333)] * 4,
    *((333, 500), (640, 480), (400, 300), (320, 240)),
)
# Sides of a crop, as shares of the largest that fits. The photographs' halves are 320 wide, so
# crops are scaled up by 1.5 to 2.2 as a rule. Validation looks at more of the photograph at
# once, as it does by custom.
_SHARES = {"train": (0.7, 1.0), "val": (0.9, 1.0)}
# Most of ImageNet's files are of quality 96 with colours in full resolution: about 110 kB each,
# and what decoding costs goes by that. Crops that were scaled up come to some 95 kB.
_JPEG: dict[str, int] = {"quality": 96, "subsampling": 0}
# Less leaves nothing to cut, and more is only slower to cut: pixels.
_LEAST_SIDE, _LONGEST_SIDE = 32, 1280
_KEPT = 16
"""Decoded photographs that are held for the next crop."""


class Photograph(NamedTuple):
    """What crops are cut from."""

    name: str
    load: Callable[[], Image.Image]
    """Returns it, upright, as RGB."""
    label: int
    """Of its crops; where rotations are classes, of those that are not rotated."""


class Material(NamedTuple):
    """The photographs that a data set is made of."""

    photographs: list[Photograph]
    classes: list[str]
    rotated: bool
    """A crop's rotation is part of its label."""
    skipped: int = 0
    """Files that are no pictures of any class."""


def make_photos(
    out: Path,
    *,
    from_: Annotated[
        Path | None,
        typer.Option("--from", metavar="FOLDER", help="Pictures to cut instead, at any depth."),
    ] = None,
    train: int = 2560,
    val: int = 400,
    samples_per_shard: int = 500,
    seed: int = 0,
    force: bool = False,
) -> dict[str, Any]:
    """Write crops of photographs, as large as ImageNet's pictures, as shards of JPEGs.

    Each crop is cut out of one half of a photograph, scaled, mirrored or not, and turned
    by 0, 90, 180 or 270 degrees. Left halves are for training and right halves for
    validation, so that no pixel is in both. Equal arguments give equal pictures.

    Labels (`.cls`) are the photograph and the rotation: 8 classes. Of a folder's pictures
    they are its subfolders where there are at least two with pictures, and nothing is
    turned; else the rotation alone.

    Args:
        out: the folder for train-*.tar and val-*.tar; missing or empty.
        from_: a folder of pictures to cut crops from, in place of scikit-learn's two
            photographs; of more pictures than crops only so many are used.
        train: crops to train with.
        val: crops to validate with.
        samples_per_shard: crops in one shard.
        seed: of all that is drawn.
        force: replace the shards of an earlier run.

    Returns:
        Where the shards are, and counts of what was written and skipped.

    Raises:
        UsageError: scikit-learn is missing, the folder has no pictures that can be used,
            or `out` holds something already.
    """
    for name, count in (("train", train), ("val", val)):
        if count < 1:
            raise UsageError(f"{name}={count}: allowed is at least 1")
    material = _material_of_folder(Path(from_)) if from_ is not None else _shipped()
    cutter = _Cutter(material, seed)
    with new_folder(out, force=force, stale=SPLIT_SHARDS) as partial_folder:
        written = {
            part: write_shards(cutter.samples(part, count), partial_folder, part, samples_per_shard)
            for part, count in (("train", train), ("val", val))
        }
        counts = {part: written[part].samples for part in written}
        cutter.check(counts)
        marks = {**counts, "classes": len(material.classes)}
        (partial_folder / COUNTS).write_text(json.dumps(marks) + "\n", "utf-8")
        names = json.dumps(material.classes, ensure_ascii=False)
        (partial_folder / CLASSES).write_text(names + "\n", "utf-8")
    return {
        "out": str(out),
        "samples": sum(part.samples for part in written.values()),
        "shards": sum(part.shards for part in written.values()),
        **marks,
        "skipped": material.skipped + len(cutter.faults),
    }


def ensure_photos(out: Path) -> dict[str, int]:
    """Make the photos where they are not there yet; return "train", "val" and "classes"."""
    marker = Path(out) / COUNTS
    if not marker.is_file():
        try:
            make_photos(Path(out))
        except UsageError:
            if not marker.is_file():  # else another process made them at the same time
                raise
    counts: dict[str, int] = json.loads(marker.read_text("utf-8"))
    return counts


# -- photographs ---------------------------------------------------------------------


def _shipped() -> Material:
    """Return the two photographs of scikit-learn, each 640 x 427 pixels."""
    try:
        from sklearn.datasets import load_sample_images
    except ImportError as error:
        raise UsageError(
            "the photographs come with scikit-learn, which is not installed; "
            "pip install 'stoker[demo]' brings it, or give --from a folder of pictures"
        ) from error
    found = load_sample_images()
    names = [Path(name).stem for name in found.filenames]
    photographs = [
        Photograph(name, partial(Image.fromarray, array), index * len(ROTATIONS))
        for index, (name, array) in enumerate(zip(names, found.images, strict=True))
    ]
    classes = [f"{name}, {degrees} degrees" for name in names for degrees in ROTATIONS]
    return Material(photographs, classes, rotated=True)


def _material_of_folder(folder: Path) -> Material:
    """Return a folder's pictures in an order that mixes its subfolders."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder; give one that holds pictures, at any depth")
    files = list(_files(folder))
    pictures = [path for path in files if path.suffix[1:].lower() in PICTURES]
    if not pictures:
        raise UsageError(
            f"{folder} holds no pictures among {len(files)} files; known suffixes: "
            f"{', '.join(sorted(PICTURES))}"
        )
    names = {path: path.relative_to(folder).as_posix() for path in pictures}
    classes = sorted({name.partition("/")[0] for name in names.values() if "/" in name})
    rotated = len(classes) < 2
    if not rotated:
        pictures = [path for path in pictures if "/" in names[path]]
    pictures.sort(key=lambda path: stable_key("order", names[path]))
    photographs = [
        Photograph(
            names[path],
            partial(_opened, path),
            0 if rotated else classes.index(names[path].partition("/")[0]),
        )
        for path in pictures
    ]
    if rotated:
        classes = [f"{degrees} degrees" for degrees in ROTATIONS]
    return Material(photographs, classes, rotated, len(files) - len(pictures))


def _files(folder: Path) -> Iterator[Path]:
    """Yield all files below a folder, hidden ones left out."""
    seen = set()
    for here, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(here)
        folders[:] = [name for name in folders if not name.startswith(".") and real not in seen]
        if real not in seen:  # else it was reached over another link, which may have no end
            seen.add(real)
            yield from (Path(here, name) for name in names if not name.startswith("."))


def _opened(path: Path) -> Image.Image:
    """Return a person's picture, upright, in RGB, and not larger than is of use."""
    decoded = decode.Image(source="file").apply({"file": path.read_bytes()}, Rng(0, ""))
    picture = Image.fromarray(decoded["image"])
    if min(picture.size) < _LEAST_SIDE:
        width, height = picture.size
        raise ValueError(f"{width} x {height} pixels; allowed is at least {_LEAST_SIDE} a side")
    picture.thumbnail((_LONGEST_SIDE, _LONGEST_SIDE))
    return picture


# -- crops ---------------------------------------------------------------------------


class _Cutter:
    """Cuts a data set's crops; remembers which photographs could not be used, and why."""

    def __init__(self, material: Material, seed: int) -> None:
        self._material, self._seed = material, seed
        self._load = lru_cache(_KEPT)(self._loaded)
        self.faults: dict[int, str] = {}

    def samples(self, part: str, count: int) -> Iterator[Sample]:
        """Yield a part's samples, fewer than `count` where photographs cannot be used."""
        # Pillow lets go of the GIL while it scales and compresses.
        with ThreadPoolExecutor(max(1, int(cores()))) as pool:
            for sample in pool.map(partial(self._crop, part), range(count)):
                if sample is not None:
                    yield sample

    def check(self, counts: dict[str, int]) -> None:
        """Make sure that both parts have crops.

        Raises:
            UsageError: one has none, with the first photograph that could not be used.
        """
        for part, count in counts.items():
            if not count:
                first = min(self.faults)
                name = self._material.photographs[first].name
                raise UsageError(
                    f"none of the pictures chosen for {part!r} can be used; the first, "
                    f"{name}: {self.faults[first]}"
                )

    def _crop(self, part: str, index: int) -> Sample | None:
        """Return a crop, or None where its photograph cannot be used."""
        photographs = self._material.photographs
        place = index % len(photographs)
        # Advances with the rounds through the photographs and within each, so that both one
        # photograph and thousands meet all rotations equally often.
        turn = (index // len(photographs) + place) % len(ROTATIONS)
        whole = self._load(place)
        if whole is None:
            return None
        quarter = turn if self._material.rotated else 0
        draw = random.Random(stable_key("photos", self._seed, part, index))
        picture = _cut(_half(whole, part), quarter, draw, _SHARES[part])
        file = io.BytesIO()
        picture.save(file, "jpeg", **_JPEG)
        label = photographs[place].label + quarter
        return {KEY: f"{index:06d}", "jpg": file.getvalue(), "cls": label}

    def _loaded(self, place: int) -> Image.Image | None:
        try:
            return self._material.photographs[place].load()
        except (OSError, ValueError) as error:
            self.faults[place] = str(error)
            return None


def _half(whole: Image.Image, part: str) -> Image.Image:
    """Return a photograph's left half to train with, or its right half to validate with."""
    width, height = whole.size
    middle = width // 2
    return whole.crop((0, 0, middle, height) if part == "train" else (middle, 0, width, height))


def _cut(
    region: Image.Image, quarter: int, draw: random.Random, shares: tuple[float, float]
) -> Image.Image:
    """Return a random crop, turned counterclockwise by a number of quarters.

    Its size is drawn as it is after turning: it must not tell the label.
    """
    width, height = draw.choice(_SIZES)
    if quarter % 2:
        width, height = height, width
    fitting = min(region.width / width, region.height / height)
    scale = fitting * draw.uniform(*shares)
    left = draw.uniform(0, region.width - width * scale)
    top = draw.uniform(0, region.height - height * scale)
    box = (left, top, left + width * scale, top + height * scale)
    picture = region.resize((width, height), Image.Resampling.BICUBIC, box=box)
    if draw.random() < 0.5:
        picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    if quarter:
        picture = picture.transpose(getattr(Image.Transpose, f"ROTATE_{ROTATIONS[quarter]}"))
    return picture
