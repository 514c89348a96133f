"""The pictures of `bench.peers`: JPEG files in ImageNet's sizes, cut out of real photographs.

The photographs come from Debian's wallpaper packages, from a folder, or with scikit-learn.
Training and validation pictures are cut from different photographs. Equal photographs and
counts give equal pictures; they are kept, and used again.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from PIL import Image

CACHE = Path("~/.cache/stoker-bench").expanduser()
WALLPAPERS = (
    "gnome-backgrounds",
    "mate-backgrounds",
    "plasma-workspace-wallpapers",
    "lomiri-wallpapers",
)
FETCH_S = 300
ABOUT = "pictures.json"
"""The file that says what a folder of pictures is; it marks it as whole."""

# ImageNet's pictures measure 461 x 388 on average, most are 500 on the longer side; so do
# these, drawn with equal chances: width and height in pixels.
SIZES = (
    *[(500, 375)] * 9,
    *[(375, 500)] * 3,
    *[(500, 333)] * 4,
    *((333, 500), (560, 440), (400, 300), (300, 300)),
)
QUALITIES = (86, 88, 90, 92, 94)
# Cameras halve the resolution of colours, editors often keep it.
_SUBSAMPLINGS = (0, 2)
# Sides of a crop, as shares of the largest that fits: the photographs are several times as
# large, so that crops are scaled down, as ImageNet's were.
_SHARES = (0.35, 1.0)
_LEAST_SIDE = 400
_LONGEST_SIDE = 2560
_FORM = 1
"""Counts up when other pictures come of the same arguments."""

# "Autumn/contents/images/1920x1080" and "Elephants_3840x2160": one photograph in other sizes,
# and in other light in "images_dark".
_SIZE_IN_NAME = re.compile(r"(/contents/images[^/]*/|_|^)\d{3,4}x\d{3,4}$")


class UnavailableError(RuntimeError):
    """Photographs or pictures that cannot be had, and what to do."""


class Photographs(NamedTuple):
    """What pictures are cut from."""

    about: str
    """Where they come from, without a path."""
    sources: list[tuple[str, Callable[[], Image.Image]]]
    """By name, what returns one in RGB."""


@dataclass(frozen=True)
class Pictures:
    """Pictures as files, a folder a class, and as shards."""

    files: str
    shards: tuple[str, ...]
    count: int
    about: str


# -- photographs -----------------------------------------------------------------------


def photographs(folder: Path | None, tell: Callable[[str], object]) -> Photographs:
    """Return a folder's photographs; without one the wallpapers', or scikit-learn's.

    Args:
        folder: holds photographs at any depth, or None.
        tell: told what is used in place of what could not be had.

    Raises:
        UnavailableError: the folder has none, or no others can be had.
    """
    if folder is not None:
        found = _of_folder(folder, "photographs of a folder that was given")
        if not found.sources:
            raise UnavailableError(
                f"{folder} holds no JPEG file of {_LEAST_SIDE} pixels or more a side; "
                "give --pictures-from a folder of photographs"
            )
        return found
    try:
        return wallpapers(CACHE / "wallpapers")
    except UnavailableError as error:
        tell(f"{error}; scikit-learn's two photographs are used, or give --pictures-from FOLDER")
    return _shipped()


def wallpapers(cache: Path) -> Photographs:
    """Return the photographs of Debian's wallpaper packages, fetched once. No root is needed.

    Raises:
        UnavailableError: apt cannot fetch them.
    """
    done = cache / "done.json"
    if not done.is_file():
        shutil.rmtree(cache, ignore_errors=True)
        cache.mkdir(parents=True)
        _command(["apt-get", "download", *WALLPAPERS], cache)
        packages = sorted(cache.glob("*.deb"))
        for package in packages:
            _command(["dpkg-deb", "-x", str(package), str(cache / "tree")], cache)
        names = [unquote(" ".join(path.stem.split("_")[:2])) for path in packages]
        for package in packages:
            package.unlink()
        done.write_text(json.dumps(names))
    names = json.loads(done.read_text())
    found = _of_folder(cache / "tree", f"photographs of Debian's {', '.join(names)}")
    if not found.sources:
        raise UnavailableError(f"{', '.join(names)} hold no photographs")
    return found


def _command(words: Sequence[str], folder: Path) -> None:
    try:
        subprocess.run(
            words, cwd=folder, check=True, capture_output=True, text=True, timeout=FETCH_S
        )
    except FileNotFoundError as error:
        raise UnavailableError(f"{words[0]} is not installed: no wallpapers") from error
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"{' '.join(words[:2])} took over {FETCH_S} s") from error
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["without a word"])[-1]
        raise UnavailableError(f"{' '.join(words[:2])} failed: {last}") from error


def _of_folder(folder: Path, about: str) -> Photographs:
    """Return each photograph once, in its largest size.

    Only JPEG files are photographs: drawings come as PNG or WebP, without noise and cheap.
    """
    largest: dict[str, tuple[int, Path]] = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() not in (".jpg", ".jpeg") or path.stem == "screenshot":
            continue
        name = source_name(path.relative_to(folder))
        try:
            with Image.open(path) as picture:
                width, height = picture.size
        except OSError:
            continue
        if min(width, height) >= _LEAST_SIDE and width * height > largest.get(name, (0,))[0]:
            largest[name] = width * height, path
    sources = [(name, partial(_opened, path)) for name, (_, path) in sorted(largest.items())]
    return Photographs(about, [*sources])


def source_name(path: Path) -> str:
    """Return what all sizes of a photograph are called alike: a path below a folder."""
    name = path.with_suffix("").as_posix()
    return _SIZE_IN_NAME.sub("", name) or name


def _opened(path: Path) -> Image.Image:
    with Image.open(path) as file:
        picture = file.convert("RGB")
    picture.thumbnail((_LONGEST_SIDE, _LONGEST_SIDE), Image.Resampling.LANCZOS)
    return picture


def _shipped() -> Photographs:
    try:
        from sklearn.datasets import load_sample_images
    except ImportError as error:
        raise UnavailableError(
            "there are no photographs: give --pictures-from a folder of some, or pip install "
            "scikit-learn, which carries two"
        ) from error
    found = load_sample_images()
    named = zip(found.filenames, found.images, strict=True)
    sources = [(Path(name).stem, partial(Image.fromarray, array)) for name, array in named]
    return Photographs("scikit-learn's two photographs, scaled up in part", [*sources])


# -- pictures --------------------------------------------------------------------------


def split(names: Sequence[str]) -> dict[str, list[int]]:
    """Return which photographs are for "train" and which for "val": a tenth, one at least.

    One photograph alone is for both.
    """
    order = sorted(
        range(len(names)), key=lambda index: hashlib.sha256(names[index].encode()).digest()
    )
    if len(order) == 1:
        return {"train": order, "val": order}
    cut = max(1, len(order) // 10)
    return {"train": sorted(order[cut:]), "val": sorted(order[:cut])}


def make_pictures(
    cache: Path, material: Photographs, train: int, val: int, per_shard: int
) -> Pictures:
    """Return pictures for training, made if they are not there.

    Args:
        cache: folder that keeps pictures.
        material: what they are cut from.
        train: pictures to train with.
        val: pictures to validate with, written beside them.
        per_shard: pictures in a shard.
    """
    names = [name for name, _ in material.sources]
    given = json.dumps([_FORM, material.about, names, train, val, per_shard])
    folder = cache / f"pictures-{train}-{hashlib.sha256(given.encode()).hexdigest()[:12]}"
    if not (folder / ABOUT).is_file():
        part = cache / f".{folder.name}.{os.getpid()}"
        shutil.rmtree(part, ignore_errors=True)
        parts = split(names)
        for name, count in (("train", train), ("val", val)):
            _write(part, name, _cuts(material, parts[name], count), per_shard)
        about = {"about": material.about, "train": train, "val": val}
        (part / ABOUT).write_text(json.dumps(about) + "\n", "utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
    shards = sorted(map(str, (folder / "shards").glob("train-*.tar")))
    return Pictures(str(folder / "files" / "train"), tuple(shards), train, material.about)


def _write(folder: Path, part: str, cuts: Iterator[tuple[int, bytes]], per_shard: int) -> None:
    """Write a part's pictures as files and as shards, in an order in which classes mix."""
    files, shards = folder / "files" / part, folder / "shards"
    shards.mkdir(parents=True, exist_ok=True)
    written: list[tuple[Path, int]] = []
    for index, (label, data) in enumerate(cuts):
        path = files / f"class{label:03d}" / f"{index:06d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        written.append((path, label))
    random.Random(part).shuffle(written)
    for number, start in enumerate(range(0, len(written), per_shard)):
        with tarfile.open(shards / f"{part}-{number:05d}.tar", "w") as tar:
            for path, label in written[start : start + per_shard]:
                for field, data in (("jpg", path.read_bytes()), ("cls", b"%d" % label)):
                    member = tarfile.TarInfo(f"{path.stem}.{field}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))


def _cuts(material: Photographs, places: Sequence[int], count: int) -> Iterator[tuple[int, bytes]]:
    """Yield label and JPEG file of each picture; the label is its photograph."""
    each, more = divmod(count, len(places))

    def of(label: int) -> list[tuple[int, bytes]]:
        number = each + (label < more)
        if not number:
            return []
        name, load = material.sources[places[label]]
        whole = load()
        return [(label, _cut(whole, random.Random(f"{name} {at}"))) for at in range(number)]

    # Pillow lets go of the GIL while it scales and compresses.
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for found in pool.map(of, range(len(places))):
            yield from found


def _cut(whole: Image.Image, draw: random.Random) -> bytes:
    """Return a random part of a photograph, as a JPEG file."""
    width, height = draw.choice(SIZES)
    fitting = min(whole.width / width, whole.height / height)
    scale = max(fitting * draw.uniform(*_SHARES), min(1.0, fitting))
    left = draw.uniform(0, whole.width - width * scale)
    top = draw.uniform(0, whole.height - height * scale)
    box = (left, top, left + width * scale, top + height * scale)
    picture = whole.resize((width, height), Image.Resampling.LANCZOS, box=box)
    file = io.BytesIO()
    picture.save(
        file, "jpeg", quality=draw.choice(QUALITIES), subsampling=draw.choice(_SUBSAMPLINGS)
    )
    return file.getvalue()


def described(files: Sequence[Path]) -> Mapping[str, int]:
    """Return mean size in bytes and in pixels of JPEG files."""
    total = [0, 0, 0]
    for path in files:
        with Image.open(path) as picture:
            here = (path.stat().st_size, *picture.size)
        total = [one + more for one, more in zip(total, here, strict=True)]
    names = ("mean_file_bytes", "mean_width", "mean_height")
    return {name: round(one / len(files)) for name, one in zip(names, total, strict=True)}
