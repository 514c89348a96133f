"""Damaged pictures and shards: decoded, or refused in our words; no crash, no hang, no growth."""

from __future__ import annotations

import builtins
import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stoker import Map, param
from stoker.rng import Rng
from stoker.sample import Sample
from stoker_plugins.decode import Image
from tests.faults import mutants_child
from tests.faults.mutants import picture, shard
from tests.faults.mutants_child import Mutants, run
from tests.faults.scale import scaled


@dataclass(frozen=True)
class Raw(Map):
    """Raises an error as libraries do."""

    name, kind = "fuzz.raw", "decode"
    error: str = param("OSError")

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        raise vars(builtins)[self.error]("raw")


ROOT = Path(__file__).resolve().parents[2]
# A batch takes about two seconds; a machine that is busy with other things has time enough.
BATCH_S = 120.0
GROWTH = 48 << 20
"""Bytes that the process may grow by once it is warm: caches and the allocator's own."""


def reports(command: list[str], folder: Path, batch_s: float = BATCH_S) -> Iterator[dict[str, Any]]:
    """Yield what a child process says after each batch, until it ends.

    Raises:
        AssertionError: it ended otherwise than by its own will, or was silent for too long;
            with the number that was in work.
    """
    errors = folder / "errors"
    with (
        errors.open("wb") as stderr,
        subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=stderr, env=environment()
        ) as child,
    ):
        assert child.stdout is not None
        try:
            while True:
                ready, _, _ = select.select([child.stdout], [], [], batch_s)
                assert ready, f"silent for {batch_s} s at {at(folder)}"
                line = child.stdout.readline()
                if not line:
                    break
                yield json.loads(line)
        finally:
            child.kill()
    assert child.returncode == 0, (
        f"ended with {child.returncode} at {at(folder)}: {errors.read_text('utf-8')[-2000:]}"
    )


def environment() -> dict[str, str]:
    """Return this process's surroundings, with one thread for libraries that make their own."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


def at(folder: Path) -> str:
    """Return what the child had in work."""
    mark = folder / "at"
    return mark.read_text("utf-8").strip() if mark.exists() else "its start"


@pytest.mark.slow
def test_damaged_files_are_decoded_or_refused(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Each by both decoders, refused and filled, whole and in part; a tenth of them in tars."""
    count = scaled(2000, 20000)
    command = [sys.executable, "-m", "tests.faults.mutants_child", "0", str(count), str(tmp_path)]
    wrong, sizes = [], {}
    for report in reports(command, tmp_path):
        wrong += report["wrong"]
        sizes[report["done"]] = report["rss"]
    assert wrong == []
    assert max(sizes) == count
    grown = sizes[count] - sizes[500]
    record_property("files", count)
    record_property("bytes grown", grown)
    assert grown < GROWTH


def test_mutants_are_numbered_and_differ() -> None:
    """The number that a failure names is all that it takes to have its file again."""
    assert [picture(n) for n in range(40)] == [picture(n) for n in range(40)]
    assert [shard(n) for n in range(9)] == [shard(n) for n in range(9)]
    assert len({picture(n) for n in range(200)}) > 195


# -- that the suite would notice -----------------------------------------------------------


@pytest.mark.parametrize(
    ("work", "says"),
    [
        ("os.kill(os.getpid(), 11)", "ended with -11 at seed 77"),
        ("raise MemoryError", "(?s)ended with 1 at seed 77: .*MemoryError"),
        ("time.sleep(60)", "silent for 1.0 s at seed 77"),
    ],
    ids=["crash", "error", "hang"],
)
def test_a_crash_and_a_hang_are_seen_and_name_the_number(
    work: str, says: str, tmp_path: Path
) -> None:
    mark = f"open({str(tmp_path / 'at')!r}, 'w').write('seed 77')"
    code = f"import os, time; {mark}; print({{}}, flush=True); {work}"
    with pytest.raises(AssertionError, match=says):
        assert list(reports([sys.executable, "-c", code], tmp_path, batch_s=1.0)) == [{}]


@pytest.fixture
def marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    handle = os.open(tmp_path / "at", os.O_CREAT | os.O_RDWR)
    monkeypatch.setattr(mutants_child, "MARK", handle, raising=False)
    yield
    os.close(handle)


@pytest.mark.usefixtures("marked")
@pytest.mark.parametrize("error", [OSError, SyntaxError, MemoryError])
def test_a_raw_error_is_seen(error: type[Exception]) -> None:
    found, wrong = run(Mutants(0, 3), Raw(error.__name__))
    assert len(found) == 3
    assert wrong == [f"seed {n}: fuzz.raw: {error.__name__}: raw" for n in range(3)]


@pytest.mark.usefixtures("marked")
def test_decoders_that_differ_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(jpeg: Any, data: bytes, ask: Any) -> Any:
        found = Image._decoded(jpeg, data, ask)
        return found._replace(array=found.array[::-1].copy())

    monkeypatch.setattr(mutants_child, "BATCH", 50)
    assert list(mutants_child.pictures(0)) == []
    monkeypatch.setattr(mutants_child.MarkedJpeg, "_decoded", swapped)
    wrong = list(mutants_child.pictures(0))
    assert len(wrong) > 5
    assert all("with jpeg" in line for line in wrong)
