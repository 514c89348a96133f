"""Archives and questions that the tests of sources share."""

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from stoker.stages import Caution, Stage, Surroundings

Members = Iterable[tuple[str, bytes]]


def write_tar(path: Path, members: Members, mode: Any = "w", **options: Any) -> Path:
    """Write members, in order, into a tar."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode, **options) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def pairs(count: int, size: int = 10, start: int = 0) -> list[tuple[str, bytes]]:
    """Return the members of `count` samples, a `.jpg` and a `.cls` each."""
    members = []
    for number in range(start, start + count):
        members.append((f"{number:05d}.jpg", number.to_bytes(2, "big") * size))
        members.append((f"{number:05d}.cls", str(number % 10).encode()))
    return members


def problems(stage: Stage) -> list[str]:
    """Return what the stage refuses when it is checked."""
    return [line for line in _check(stage) if not isinstance(line, Caution)]


def cautions(stage: Stage) -> list[str]:
    """Return what the stage warns of when it is checked."""
    return [line for line in _check(stage) if isinstance(line, Caution)]


def _check(stage: Stage) -> list[str]:
    return list(stage.check(Surroundings((stage,), 0)))
