"""The block that people paste: 25 lines of 80 columns at most, no colour.

First the verdict, then the prediction, then whether it is proven, then the stage
table, then machine, versions and command. Paths, hosts and users are left out.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from stoker.analyze.advice import WIDTH, clipped
from stoker.analyze.diagnosis import Diagnosis
from stoker.analyze.evidence import Evidence, Rate
from stoker.measure.snapshot import Report, StageRow
from stoker.measure.table import duration, number, waits

LINES = 25
_HEADER = ("stage", "workers", "items/s", "could", "service", "cpu", "core", "blkd", "in", "out")


def block(
    diagnosis: Diagnosis,
    evidence: Evidence,
    whole: Report,
    versions: Mapping[str, Any],
    command: str,
) -> str:
    """Return an analysis as a block of text."""
    head = [diagnosis.headline, *_prediction(diagnosis), _rates(evidence)]
    tail = [*_footer(evidence, versions), *([f"$ {command}"] if command else [])]
    table = stage_lines(whole.stages)
    room = LINES - len(head) - len(tail) - len(table)
    notes = [wrapped("> ", line) for line in diagnosis.advice[:1]]
    notes += [wrapped("- ", fact) for fact in diagnosis.evidence]
    notes += [wrapped("> ", line) for line in diagnosis.advice[1:]]
    notes += [wrapped("! ", caution) for caution in evidence.cautions]
    notes += [wrapped("- ", note) for note in evidence.notes]
    kept: list[str] = []
    for note in notes:  # whole notes only, the most important first
        if len(kept) + len(note) <= room:
            kept += note
    lines = [*head, *kept, *table, *tail]
    return "\n".join(clipped(line) for line in lines[:LINES])


def wrapped(mark: str, text: str) -> list[str]:
    """Return a note as lines that fit, the first one marked."""
    return textwrap.wrap(
        text, WIDTH, initial_indent=mark, subsequent_indent="  ", break_on_hyphens=False
    )


def _prediction(diagnosis: Diagnosis) -> list[str]:
    ceiling = diagnosis.ceiling
    if diagnosis.verdict == "undetermined":
        return []
    what = "a faster step" if diagnosis.verdict == "do nothing" else f"without {diagnosis.stage}"
    return [
        f"Ceiling {what}: {ceiling.value:.2f}x ({ceiling.low:.2f}-{ceiling.high:.2f}), "
        f"then {ceiling.next} binds",
        "Proven: no, predicted from bounds measured in place",
    ]


def _rates(evidence: Evidence) -> str:
    rate = evidence.throughput
    parts = [f"{number(rate.value)} samples/s ({number(rate.low)}-{number(rate.high)})"]
    named: tuple[tuple[str, Rate | None], ...] = (
        ("loader alone", evidence.loader_alone),
        ("step alone", evidence.step_alone),
    )
    parts += [f"{name} {number(value.value)}" for name, value in named if value is not None]
    return "Now " + ", ".join(parts)


def stage_lines(rows: Sequence[StageRow]) -> list[str]:
    """Return the stage table, at most 80 columns wide.

    `could` is what the stage's workers could pass on if they did nothing else. `cpu`,
    `core` and `blkd` split the time at work into computing, waiting for a core and being
    blocked; `in` and `out` are the shares of the workers' time spent waiting.
    """
    cells = [_HEADER, *(_cells(row) for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(_HEADER))]
    spare = WIDTH - sum(widths[1:]) - len(widths[1:])
    widths[0] = min(widths[0], max(spare, 8))
    lines = []
    for line in cells:
        name = line[0] if len(line[0]) <= widths[0] else line[0][: widths[0] - 1] + "…"
        rest = (cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))
        lines.append(" ".join([name.ljust(widths[0]), *rest]).rstrip())
    return lines


def _cells(row: StageRow) -> tuple[str, ...]:
    total = (row.service_ms or 0.0) + (row.runqueue_ms or 0.0)

    def share(part: float | None) -> str:
        return f"{part / total:.0%}" if part is not None and total else "-"

    could = capacity_per_s(row)
    kind = {"thread": "thr", "process": "proc"}.get(row.executor)
    return (
        row.name,
        f"{row.num_workers} {kind}" if kind else "inline",
        number(row.items_per_s),
        number(could) if could is not None else "-",
        duration(row.service_ms),
        share(row.cpu_ms),
        share(row.runqueue_ms),
        share(row.blocked_ms),
        *waits(row),
    )


def capacity_per_s(row: StageRow) -> float | None:
    """Return the items/s that a stage's workers could pass on if it were alone in its segment."""
    return row.num_workers * 1e3 / row.service_ms if row.service_ms else None


def _footer(evidence: Evidence, versions: Mapping[str, Any]) -> list[str]:
    host = evidence.host
    used = f"{host.own:.1f} of {host.cores:g} cores" if host.own is not None else "cores unknown"
    others = f", others {host.others:.1f}" if host.others is not None else ""
    processor = versions["machine"].split(",")[-1].strip()
    return [
        f"Used {used}{others}; {processor}",
        f"stoker {versions['stoker']}, torch {versions['torch']}, Python {versions['python']}",
    ]
