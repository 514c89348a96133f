"""Where the index of shards is kept: beside them, else in the user's cache folder.

Each shard has a file of its own, so that a data set which grows is not indexed anew.
Several shards that are read together also have one file for all: a mapping holds a
file open, and thousands of shards must not need thousands of open files.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

SUFFIX = ".stoker-index"


def beside(paths: Sequence[str]) -> Path:
    """Return the hidden file next to a shard, or next to the first of several."""
    folder, name = os.path.split(paths[0])
    return Path(folder) / f".{name if len(paths) == 1 else _digest(paths)}{SUFFIX}"


def elsewhere(paths: Sequence[str]) -> Path:
    """Return the file in the user's cache folder, named by the shards' full paths.

    So shards of equal name in two folders have a file each.
    """
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser() / "stoker" / "index" / f"{_digest(paths)}{SUFFIX}"


def kept(paths: Sequence[str]) -> Iterator[bytes]:
    """Yield what is kept for some shards, from each place that has any to read."""
    for place in _places(paths):
        try:
            yield place.read_bytes()
        except OSError:
            continue  # absent: the index can always be made anew


def mapped(paths: Sequence[str]) -> Iterator[mmap.mmap]:
    """Yield what is kept as `kept` does, mapped: processes that map one file share its memory.

    A mapping lasts as long as anything that looks into it.
    """
    for place in _places(paths):
        try:
            with open(place, "rb") as file:
                yield mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):
            continue  # absent, empty, or on a file system that maps nothing


def keep(paths: Sequence[str], buffers: Iterable[Any]) -> Path | None:
    """Keep buffers for some shards; return where, or None where no folder can be written."""
    buffers = list(buffers)
    for place in _places(paths):
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            _write_whole(place, buffers)
        except OSError:
            continue  # a read-only or full disk only costs the next start its time
        return place
    return None


def _places(paths: Sequence[str]) -> tuple[Path, Path]:
    return beside(paths), elsewhere(paths)


def _digest(paths: Sequence[str]) -> str:
    full = b"\0".join(os.fsencode(os.path.realpath(path)) for path in paths)
    return hashlib.blake2b(full, digest_size=16).hexdigest()


def _write_whole(place: Path, buffers: Iterable[Any]) -> None:
    """Write a file that others see whole or not at all, also when two write it at once.

    What others have mapped stays as it is: the new file takes the place of the old one.
    """
    draft = place.with_name(f"{place.name}.{secrets.token_hex(8)}.tmp")
    try:
        with open(draft, "xb") as file:
            file.writelines(buffers)
        os.replace(draft, place)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
