"""Which files a shard pattern means, and what can be wrong with them."""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from stoker.errors import describe_given

Patterns = str | Path | tuple[str | Path, ...]
"""A path, a glob, a brace pattern, or several of these."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
}


def compression(path: str) -> str:
    """Return what a file is compressed with, by its content: "" for nothing known."""
    with open(path, "rb") as file:
        head = file.read(6)
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), "")


def expand(patterns: Patterns) -> tuple[list[str], list[str]]:
    """Return the files that the patterns mean, and what is wrong with the patterns.

    The files come in the order given, those of a glob sorted by name.
    """
    paths: list[str] = []
    problems: list[str] = []
    several = patterns if isinstance(patterns, (tuple, list)) else (patterns,)
    for pattern in several:
        found, wrong = _expand_one(os.fspath(pattern))
        paths += found
        problems += wrong
    problems += _repeats(paths)
    if not several:
        problems.append("no shards are named; name at least one tar file")
    return paths, problems


def _expand_one(pattern: str) -> tuple[list[str], list[str]]:
    shown = f"shard pattern {describe_given(pattern)}"
    if pattern.startswith("pipe:"):
        return [], [f"{shown}: commands are never run; name local files"]
    if os.path.exists(pattern):  # a name may hold braces and brackets of its own
        candidates = [pattern]
    elif "://" in pattern or _SCHEME.match(pattern):
        return [], [f"{shown}: only local files can be read; download the shards and name them"]
    else:
        try:
            candidates = list(_braces(pattern))
        except ValueError as error:
            return [], [f"{shown}: {error}"]
    return _files(pattern, candidates)


def _braces(pattern: str) -> Iterator[str]:
    from braceexpand import braceexpand

    for name in braceexpand(pattern):
        if not os.path.exists(name) and glob.escape(name) != name:
            yield from sorted(glob.glob(name, recursive=True))
        else:
            yield name


def _files(pattern: str, candidates: list[str]) -> tuple[list[str], list[str]]:
    shown = describe_given(pattern)
    if not candidates:
        return [], [f"shard pattern {shown} matches no file{_where(pattern)}"]
    problems = []
    missing = [path for path in candidates if not os.path.exists(path)]
    if missing:
        some = "" if len(candidates) == 1 else f" ({len(missing)} of {len(candidates)})"
        problems.append(f"shard pattern {shown}: no file {missing[0]!r}{some}{_where(missing[0])}")
    for path in candidates:
        if os.path.isdir(path):
            problems.append(
                f"shard pattern {shown}: {path!r} is a folder; for all shards in it write "
                f"{os.path.join(path, '*.tar')!r}"
            )
    return [path for path in candidates if os.path.isfile(path)], problems


def _where(path: str) -> str:
    """Return what is to be seen in the folder of a path that is not there."""
    folder = os.path.dirname(path) or "."
    if any(mark in folder for mark in "*?[{"):
        return ""
    if not os.path.isdir(folder):
        return f"; there is no folder {folder!r}"
    tars = sorted(name for name in os.listdir(folder) if ".tar" in name and name[0] != ".")
    return f"; {folder!r} has {len(tars)} tar files" + (f", such as {tars[0]!r}" if tars else "")


def _repeats(paths: Iterable[str]) -> list[str]:
    counts = Counter(map(os.path.realpath, paths))
    return [
        f"shard {path!r} is named {count} times: its samples would be read as often"
        for path, count in counts.items()
        if count > 1
    ]
