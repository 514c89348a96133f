"""Files and folders that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from stoker.errors import UsageError


def _partial(path: Path) -> Path:
    """Return a name beside `path` that nobody else uses and no pattern for shards matches."""
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.partial")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a name to write to, which becomes `path` when all went well."""
    partial = _partial(path)
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def new_folder(out: Path, *, force: bool = False, stale: Iterable[str] = ()) -> Iterator[Path]:
    """Yield a folder to fill, which becomes `out` when all went well.

    Args:
        out: where it shall lie; missing or empty, unless forced.
        force: put the new files into a folder that holds others; those of equal name
            and those that `stale` matches are replaced, the rest stays.
        stale: patterns for what an earlier run may have left there.

    Raises:
        UsageError: `out` holds something already, or is no folder.
    """
    out = Path(out).absolute()
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file; give a folder, which may be missing")
    filled = out.is_dir() and any(out.iterdir())
    if filled and not force:
        raise UsageError(
            f"{out} is not empty; give another folder, or force to replace the shards in it"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial(out)
    partial.mkdir()
    try:
        yield partial
        if filled:
            _replace_files(partial, out, stale)
        else:
            _replace_folder(partial, out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _replace_files(partial: Path, out: Path, stale: Iterable[str]) -> None:
    for pattern in stale:
        for old in list(out.glob(pattern)):
            old.unlink()
    for new in sorted(partial.iterdir()):
        new.replace(out / new.name)


def _replace_folder(partial: Path, out: Path) -> None:
    try:
        partial.replace(out)  # takes the place of an empty folder too
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        raise UsageError(f"{out} was filled by somebody else in the meantime") from error
