"""Writing WebDataset shards: of any samples, and of a folder of pictures."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

from stoker.errors import UsageError, describe_given
from stoker.rng import stable_key
from stoker.sample import KEY, Sample
from stoker_plugins.folders import new_folder, whole_file

PICTURES = frozenset(["bmp", "gif", "jpeg", "jpg", "png", "ppm", "pgm", "tif", "tiff", "webp"])
"""Suffixes by which a folder's pictures are known, in lower case."""

SPLIT_SHARDS = tuple(f"{part}-{'[0-9]' * 6}.tar" for part in ("train", "val"))
"""Patterns for the shards of a data set in two parts."""

CLASSES = "classes.json"
"""The file beside the shards that holds the names of the classes, by index."""


class Written(NamedTuple):
    """What `write_shards` wrote."""

    samples: int
    shards: int


# -- samples to shards -------------------------------------------------------------


def write_shards(
    samples: Iterable[Sample], out: Path, prefix: str = "train", samples_per_shard: int = 1000
) -> Written:
    """Write samples as tar shards `out/prefix-000000.tar` and so on.

    Equal samples give equal bytes. A shard has its name only once it is whole.

    Args:
        samples: dicts with `__key__` and, by suffix ("png", "cls", "json"), bytes, text,
            numbers, JSON-able dicts and lists, or arrays (under "npy").
        out: the folder; made where it is missing.
        prefix: start of the shards' names.
        samples_per_shard: how many samples go into one.

    Raises:
        UsageError: a key or field that a reader would not get back as it was.
    """
    if samples_per_shard < 1:
        raise UsageError(f"samples_per_shard={samples_per_shard}: allowed is at least 1")
    out.mkdir(parents=True, exist_ok=True)
    left = iter(samples)
    total = 0
    for shard in count():
        first = next(left, None)
        if first is None:
            return Written(total, shard)
        path = out / f"{prefix}-{shard:06d}.tar"
        with whole_file(path) as partial:
            total += _write_shard(partial, first, islice(left, samples_per_shard - 1))
    raise AssertionError("count() does not end")


def _write_shard(path: Path, first: Sample, others: Iterable[Sample]) -> int:
    """Write one shard; return how many samples it holds."""
    keys: set[str] = set()
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for sample in (first, *others):
            key = _checked_key(sample)
            if key in keys:
                raise UsageError(f"key {key!r} occurs twice in {path.name}; keys must differ")
            keys.add(key)
            for suffix, data in _members(key, sample):
                # TarInfo's own time, owner and mode are constants, so the bytes are too.
                member = tarfile.TarInfo(f"{key}.{suffix}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return len(keys)


def _checked_key(sample: Sample) -> str:
    key = sample.get(KEY)
    base = key.rpartition("/")[2] if isinstance(key, str) else ""
    if not isinstance(key, str) or not base or "." in base or key.startswith("/"):
        raise UsageError(
            f"{KEY}={describe_given(key)}: allowed is relative text such as 'cats/0001', without "
            "a dot after the last '/', since there a reader starts the field's name"
        )
    return key


def _members(key: str, sample: Sample) -> Iterator[tuple[str, bytes]]:
    """Yield suffix and bytes of each field, suffixes in lower case."""
    taken: dict[str, str] = {}
    for field, value in sample.items():
        if field.startswith("__"):
            continue
        suffix = field.lower()
        if suffix in taken:
            raise UsageError(
                f"sample {key!r} has fields {taken[suffix]!r} and {field!r}; readers do not "
                "tell upper from lower case, so rename one"
            )
        taken[suffix] = field
        yield suffix, _encoded(key, suffix, value)
    if not taken:
        raise UsageError(f"sample {key!r} has no fields, so nothing of it could be written")


def _encoded(key: str, suffix: str, value: Any) -> bytes:
    """Return a field's bytes. Nothing is pickled."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    last = suffix.rpartition(".")[2]
    try:
        if last == "json":
            return json.dumps(value, ensure_ascii=False).encode()
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, (int, float)):
            return str(value).encode()
        if last == "npy" and hasattr(value, "__array__"):
            return _npy(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"sample {key!r}, field {suffix!r}: {error}") from error
    raise UsageError(
        f"sample {key!r}, field {suffix!r}: {type(value).__name__} cannot be written; allowed are "
        "bytes (encode pictures first), text and numbers, under 'json' dicts and lists, "
        "under 'npy' arrays"
    )


def _npy(value: Any) -> bytes:
    import numpy

    held = io.BytesIO()
    numpy.save(held, numpy.asarray(value), allow_pickle=False)
    return held.getvalue()


# -- a folder of pictures ------------------------------------------------------------


def make_shards(
    folder: Path,
    out: Path,
    *,
    val_share: float = 0.0,
    samples_per_shard: int = 1000,
    force: bool = False,
) -> dict[str, Any]:
    """Write a folder of pictures, one subfolder a class, as shards.

    The pictures' bytes stay as they are; `.cls` holds the class's index, and a file
    `classes.json` the classes' names. Which pictures are for validation, and the order
    of all of them, follow from a hash of their keys: nothing is random, classes are
    mixed, and a picture keeps its side when others are added.

    Args:
        folder: holds a folder for each class; deeper folders count to their class.
        out: the folder for the shards; missing or empty.
        val_share: share of the pictures that goes to val-*.tar, from 0 to below 1.
        samples_per_shard: pictures in one shard.
        force: replace the shards and classes.json of an earlier run.

    Returns:
        Where the shards are, and counts of what was written and skipped.

    Raises:
        UsageError: no such folder, no pictures in it, or an output that is there already.
    """
    folder = Path(folder)
    if not 0 <= val_share < 1:
        raise UsageError(f"val_share={val_share}: allowed is from 0 to below 1")
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder; give one that holds a folder for each class")
    classes, files, skipped = _scan(folder)
    if not files:
        raise UsageError(
            f"{folder} holds no pictures in class folders, as in {folder.name}/cat/1.jpg; "
            f"known suffixes: {', '.join(sorted(PICTURES))}"
        )
    keyed = sorted(_keys(folder, files).items(), key=lambda item: stable_key("order", item[0]))
    border = val_share * 2**64
    parts: dict[str, list[tuple[str, Path]]] = {"train": [], "val": []}
    for key, path in keyed:
        parts["val" if stable_key("val", key) < border else "train"].append((key, path))
    if not parts["train"] or (val_share and not parts["val"]):
        raise UsageError(
            f"val_share={val_share} of {len(keyed)} pictures leaves {len(parts['train'])} to "
            f"train and {len(parts['val'])} to validate with; give more pictures"
        )
    result = _write_parts(folder, out, classes, parts, samples_per_shard, force)
    return {**result, "classes": len(classes), "skipped": skipped}


def _write_parts(
    folder: Path,
    out: Path,
    classes: list[str],
    parts: dict[str, list[tuple[str, Path]]],
    samples_per_shard: int,
    force: bool,
) -> dict[str, Any]:
    index = {name: i for i, name in enumerate(classes)}

    def samples(part: str) -> Iterator[Sample]:
        for key, path in parts[part]:
            name = path.relative_to(folder).parts[0]
            yield {KEY: key, path.suffix[1:].lower(): path.read_bytes(), "cls": index[name]}

    with new_folder(out, force=force, stale=SPLIT_SHARDS) as partial:
        written = {
            part: write_shards(samples(part), partial, part, samples_per_shard) for part in parts
        }
        (partial / CLASSES).write_text(json.dumps(classes, ensure_ascii=False) + "\n", "utf-8")
    return {
        "out": str(out),
        "samples": sum(part.samples for part in written.values()),
        "shards": sum(part.shards for part in written.values()),
        "train": written["train"].samples,
        "val": written["val"].samples,
    }


def _scan(folder: Path) -> tuple[list[str], list[Path], int]:
    """Return the classes that have pictures, the pictures, and how many files are neither."""
    files: list[Path] = []
    skipped = 0
    for here, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and not _leads_up(here, name)
        )
        for name in sorted(names):
            path = Path(here, name)
            picture = path.suffix[1:].lower() in PICTURES and not name.startswith(".")
            if picture and path.parent != folder:
                files.append(path)
            else:
                skipped += 1
    classes = sorted({path.relative_to(folder).parts[0] for path in files})
    return classes, files, skipped


def _leads_up(here: str, name: str) -> bool:
    """Return whether a folder is a link to one that holds it, which would have no end."""
    target = Path(here, name)
    return target.is_symlink() and Path(here).resolve().is_relative_to(target.resolve())


def _keys(folder: Path, files: list[Path]) -> dict[str, Path]:
    """Return files by key: their path, without dots in the name; with suffix where two clash."""
    by_stem: dict[str, list[Path]] = defaultdict(list)
    for path in files:
        by_stem[_key(path.relative_to(folder).with_suffix(""))].append(path)
    keyed: dict[str, Path] = {}
    for stem, paths in by_stem.items():
        for path in paths:
            key = stem if len(paths) == 1 else _key(path.relative_to(folder))
            if key in keyed:
                raise UsageError(f"{keyed[key]} and {path} would share key {key!r}; rename one")
            keyed[key] = path
    return keyed


def _key(path: Path) -> str:
    return path.with_name(path.name.replace(".", "_")).as_posix()
