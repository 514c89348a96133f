"""Where the index of a shard is kept: beside it, else in the user's cache folder."""

from __future__ import annotations

import hashlib
import os
import secrets
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy

SUFFIX = ".stoker-index.npz"


def beside(path: str) -> Path:
    """Return the hidden file next to a shard."""
    folder, name = os.path.split(path)
    return Path(folder) / f".{name}{SUFFIX}"


def elsewhere(path: str) -> Path:
    """Return the file in the user's cache folder, named by the shard's full path.

    So shards of equal name in two folders have a file each.
    """
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    full = os.path.realpath(path)
    digest = hashlib.blake2b(os.fsencode(full), digest_size=16).hexdigest()
    return Path(home).expanduser() / "stoker" / "index" / f"{digest}{SUFFIX}"


def kept(path: str) -> Iterator[dict[str, Any]]:
    """Yield the arrays kept for a shard, from each place that has any to read."""
    for place in (beside(path), elsewhere(path)):
        try:
            with open(place, "rb") as file, numpy.load(file, allow_pickle=False) as arrays:
                found = {name: arrays[name] for name in arrays.files}
        except (OSError, ValueError, EOFError, TypeError, zipfile.BadZipFile):
            continue  # absent or damaged: the index can always be made anew
        yield found


def keep(path: str, arrays: dict[str, Any]) -> Path | None:
    """Keep arrays for a shard; return where, or None where no folder can be written."""
    for place in (beside(path), elsewhere(path)):
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            _write_whole(place, arrays)
        except OSError:
            continue  # a read-only or full disk only costs the next start its time
        return place
    return None


def _write_whole(place: Path, arrays: dict[str, Any]) -> None:
    """Write a file that others see whole or not at all, also when two write it at once."""
    draft = place.with_name(f"{place.name}.{secrets.token_hex(8)}.tmp")
    try:
        with open(draft, "xb") as file:
            numpy.savez(file, **arrays)
        os.replace(draft, place)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
