"""A run's folder: `runs/<time>-<name>/` with metrics.jsonl, result.json, report.md, checkpoints."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stoker.errors import UsageError
from stoker.jsonable import to_json

# Of a pipeline's name: file systems allow 255 bytes, and a character takes up to four.
MAX_NAME = 50


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
        safe = "".join(c if c.isalnum() or c in "-_." else "-" for c in name)[:MAX_NAME]
        number = 1
        while True:
            self.path = runs / (f"{stamp}-{safe}" + (f"-{number}" if number > 1 else ""))
            try:
                self.path.mkdir(parents=True)
            except OSError as error:
                if os.path.isdir(self.path):  # a run of the same second
                    number += 1
                    continue
                reason = error.strerror or str(error)
                raise UsageError(
                    f"--runs {runs}: cannot make a run folder there: {reason}; give a folder "
                    "that can be written to, which may be missing"
                ) from error
            return

    @classmethod
    def of(cls, path: Path) -> RunFolder:
        """Return the folder of a run that goes on; the result so far becomes an earlier one."""
        folder = cls.__new__(cls)
        folder.path = path
        for name in ("result.json", "report.md"):
            if (path / name).exists():
                (path / name).replace(path / f"earlier-{name}")
        metrics = path / "metrics.jsonl"
        if metrics.exists() and not metrics.read_bytes().endswith(b"\n"):
            with metrics.open("ab") as file:  # a kill cut the last line off
                file.write(b"\n")
        return folder

    @property
    def quarantine(self) -> Path:
        """Where quarantined samples are noted."""
        return self.path / "quarantine.jsonl"

    def append(self, record: Mapping[str, Any]) -> None:
        """Add a line to metrics.jsonl."""
        with (self.path / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(to_json(record) + "\n")

    def write(self, name: str, text: str) -> None:
        """Write a file whole: aside, then renamed, so that no reader sees half of it."""
        aside = self.path / f".{name}.{os.getpid()}"
        try:
            aside.write_text(text, "utf-8")
            aside.replace(self.path / name)
        finally:
            aside.unlink(missing_ok=True)
