"""Mutated JPEG, PNG and tar files: no crash, no hang, no growth, every refusal one of ours."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.faults.scale import LONG

pytest.importorskip("simplejpeg")

ROOT = Path(__file__).resolve().parents[2]
TIMES = 10 if LONG else 1
# 2,000 in all, and ten times as many in the long form.
COUNTS = {"jpeg": 900 * TIMES, "png": 800 * TIMES, "tar": 300 * TIMES}
SILENCE_S = 120.0
"""A child that tells nothing for so long hangs: 50 inputs take a second."""
MAX_GROWTH = 48 * 2**20
"""Of the child's memory over three quarters of its inputs."""


def fuzzed(kind: str, seed: int, count: int, folder: Path) -> dict[str, Any]:
    """Run a child over so many inputs and return what it tells at the end."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.fuzz", kind, f"{seed}", f"{count}", str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    lines: queue.Queue[str | None] = queue.Queue()

    def listen() -> None:
        assert child.stdout is not None
        with child.stdout:
            for line in child.stdout:
                lines.put(line)
        lines.put(None)

    listener = threading.Thread(target=listen)
    listener.start()
    last = "nothing"
    try:
        while True:
            line = lines.get(timeout=SILENCE_S)
            if line is None:
                break
            last = line
    except queue.Empty:
        pytest.fail(f"{kind}, seed {seed}: hangs behind input {last}")
    finally:
        child.kill()
        child.wait()
        listener.join()
    assert last.startswith("{"), f"{kind}, seed {seed}: ended by {child.returncode} behind {last}"
    result: dict[str, Any] = json.loads(last)
    return result


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(COUNTS))
def test_damaged_files_are_refused_or_read(kind: str, tmp_path: Path) -> None:
    seed = 2026
    result = fuzzed(kind, seed, COUNTS[kind], tmp_path)
    assert result["faults"] == [], f"seed {seed}"
    assert result["growth"] < MAX_GROWTH
    # The damage is worth something: some files are refused, some are still read.
    assert result["refused"] > COUNTS[kind] / 10
    assert result["made"] > COUNTS[kind] / 10
