"""report.md: what a run did, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stoker.measure.snapshot import StageRow
from stoker.measure.table import HEADER, cells, fates


def markdown(result: Mapping[str, Any]) -> str:
    """Return a result as a Markdown page."""
    versions = result["versions"]
    throughput = result["throughput"]
    lines = [
        f"# {result['pipeline']}: {result['status']}",
        "",
        f"{result['steps']} steps, {result['samples']:,} samples in {result['training_s']:.1f} s"
        + (f" ({throughput:,.0f} samples/s)" if throughput else "")
        + f"; {result['elapsed_s']:.1f} s with start and evaluation.",
    ]
    if result["error"]:
        lines += ["", "## What ended it", "", "```", result["error"], "```"]
    if result["evaluations"]:
        lines += ["", "## Evaluation", "", *_evaluations(result["evaluations"])]
    lines += [
        "",
        "## Stages",
        "",
        *stage_table([StageRow(**row) for row in result["stages"]]),
        "",
        f"Ledger: {fates(result['ledger'])}.",
        "",
        *_starts(result["resumed_at"]),
        "Times are per item. `service` leaves out waiting for a core; `wait in` and `out` are "
        "shares of the workers' time spent waiting for data and for output to be taken.",
        "",
        "## How it was run",
        "",
        f"- command: `{result['command'] or 'from Python'}`",
        f"- device {result['plan']['device']}, precision {result['plan']['precision']}, "
        f"seed {result['plan']['seed']}",
        f"- {versions['machine']}, {versions['cores']:g} cores; stoker {versions['stoker']}, "
        f"Python {versions['python']}, torch {versions['torch']}",
    ]
    lines += [f"- caution: {caution}" for caution in result["plan"]["cautions"]]
    return "\n".join(lines) + "\n"


def _starts(steps: Sequence[int]) -> list[str]:
    if not steps:
        return []
    at = ", ".join(f"{step:,}" for step in steps)
    return [f"Resumed at step {at}: the table of stages is of the time since then.", ""]


def stage_table(rows: Sequence[StageRow]) -> list[str]:
    """Return stages as the lines of a Markdown table."""
    align = ["---", "---", *["---:"] * (len(HEADER) - 2)]
    table = [HEADER, align, *(cells(row) for row in rows)]
    return [f"| {' | '.join(row)} |" for row in table]


def _evaluations(evaluations: Sequence[Mapping[str, Any]]) -> list[str]:
    names = list(evaluations[-1]["metrics"])
    lines = [f"| epoch | {' | '.join(names)} |", f"|---|{'---:|' * len(names)}"]
    for record in evaluations:
        values = (f"{record['metrics'].get(name, float('nan')):.4f}" for name in names)
        lines.append(f"| {record['epoch'] + 1} | {' | '.join(values)} |")
    return lines
