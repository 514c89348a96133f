"""A run's folder: `runs/<time>-<name>/` with metrics.jsonl, result.json and report.md."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stoker.errors import UsageError


class RunFolder:
    """Creates a fresh folder and writes to it.

    Args:
        runs: the folder that holds all runs; made where it is missing.
        name: of the pipeline.

    Raises:
        UsageError: the folder cannot be made.
    """

    def __init__(self, runs: Path, name: str) -> None:
        stamp = time.strftime("%Y%m%d-%H%M%S")
        safe = "".join(c if c.isalnum() or c in "-_." else "-" for c in name)
        for number in range(1, 1000):
            path = runs / (f"{stamp}-{safe}" + (f"-{number}" if number > 1 else ""))
            try:
                path.mkdir(parents=True)
            except FileExistsError:
                if runs.exists() and not runs.is_dir():
                    raise UsageError(f"--runs {runs}: this is a file, give a folder") from None
                continue
            except OSError as error:
                reason = error.strerror or str(error)
                raise UsageError(f"--runs {runs}: cannot make a run folder: {reason}") from error
            self.path = path
            return
        raise UsageError(f"--runs {runs}: too many runs named {stamp}-{safe}")

    @property
    def quarantine(self) -> Path:
        """Where quarantined samples are noted."""
        return self.path / "quarantine.jsonl"

    def append(self, record: Mapping[str, Any]) -> None:
        """Add a line to metrics.jsonl."""
        with (self.path / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(record, allow_nan=False, default=str) + "\n")

    def write(self, name: str, text: str) -> None:
        """Write a file whole: aside, then renamed, so that no reader sees half of it."""
        aside = self.path / f".{name}.{os.getpid()}"
        aside.write_text(text)
        aside.replace(self.path / name)
