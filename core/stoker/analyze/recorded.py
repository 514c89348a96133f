"""Evidence from a recorded run: last night's windows, explained this morning."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from stoker.analyze.evidence import Evidence, HostUse
from stoker.errors import UsageError
from stoker.measure.snapshot import Report, StageRow


@dataclass(frozen=True)
class Recorded:
    """A run folder, as far as an analysis needs it."""

    folder: Path
    evidence: Evidence
    result: Mapping[str, Any]
    """The run's result.json; empty where the run was killed before it wrote one."""


def recorded(folder: Path) -> Recorded:
    """Read a run folder.

    Raises:
        UsageError: it is none, or holds no windows.
    """
    metrics = folder / "metrics.jsonl"
    if not metrics.is_file():
        what = "has no metrics.jsonl" if folder.is_dir() else "does not exist"
        raise UsageError(f"{folder} {what}; give the folder of a run, such as runs/<time>-<name>")
    windows = []
    for line in metrics.read_text().splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue  # the last line of a killed run
        if record.get("event") == "window":
            windows.append(report_from(record))
    if not windows:
        raise UsageError(f"{metrics} holds no windows: the run ended before its first one")
    result: dict[str, Any] = {}
    if (folder / "result.json").is_file():
        result = json.loads((folder / "result.json").read_text())
    longest = max(report.window_s for report in windows)
    # The first window pays for the start; a last one that is short tells little.
    kept = [r for r in windows[1:] if r.window_s > 0.5 * longest] or windows
    seconds = sum(report.window_s for report in kept)
    cores = float(result.get("plan", {}).get("cores") or result.get("versions", {}).get("cores", 1))
    own = sum(report.cpu_s for report in kept) / seconds if seconds else None
    step = kept[-1].stages[-1]
    evidence = Evidence(
        kept[-1].pipeline,
        kept,
        HostUse(cores, own),
        device_step=not computes(step),
        cautions=[
            "recorded: what blocked threads waited for and who else used the cores is unknown"
        ],
    )
    return Recorded(folder, evidence, result)


def report_from(record: Mapping[str, Any]) -> Report:
    """Return a report from its dict, as metrics.jsonl and result.json hold it."""
    known = {field.name for field in fields(StageRow)}
    rows = tuple(
        StageRow(**{name: value for name, value in row.items() if name in known})
        for row in record["stages"]
    )
    return Report(
        record["pipeline"],
        record["window_s"],
        rows,
        record["ledger"],
        record["cpu_s"],
        record["unattributed_cpu_s"],
        record["peak_prefetch_bytes"],
    )


def computes(step: StageRow) -> bool:
    """Whether a step spends most of its time on the host's cores, or waiting for one."""
    wanted = (step.cpu_ms or 0.0) + (step.runqueue_ms or 0.0)
    return wanted > 0.5 * ((step.service_ms or 0.0) + (step.runqueue_ms or 0.0)) > 0.0
