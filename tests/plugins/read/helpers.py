"""Archives and questions that the tests of sources share."""

import io
import json
import tarfile
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker import Pipeline
from stoker.loader import Loader
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


@dataclass
class Outcome:
    """What came of a run."""

    samples: list[Any]
    ledger: Any
    records: list[dict[str, Any]]

    @property
    def keys(self) -> list[str]:
        return [sample["__key__"] for sample in self.samples]


def run(source: Any, on_error: Any = "raise", between: Callable[[], object] = int) -> Outcome:
    """Read a source through the engine, and see that the ledger balances whatever comes.

    Args:
        source: what to read.
        on_error: the policy.
        between: called when the run is planned, before anything is read.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "quarantine.jsonl"
        loader = Loader(Pipeline("reading", source, on_error=on_error), quarantine=file)
        try:
            with loader:
                between()
                samples = list(loader)
        finally:
            loader.ledger.check()
        lines = file.read_text().splitlines() if file.exists() else []
    return Outcome(samples, loader.ledger, [json.loads(line) for line in lines])
