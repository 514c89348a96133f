"""The per-stage table as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stoker.measure.snapshot import Report, StageRow

HEADER = ("stage", "kind", "workers", "items/s", "service", "cpu", "p99", "MB/s", "wait in", "out")


def table(report: Report) -> str:
    """Return a report as a plain table with its ledger below."""
    rows = [HEADER, *(cells(row) for row in report.stages)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    lines = []
    for row in rows:
        first = [row[0].ljust(widths[0]), row[1].ljust(widths[1])]
        rest = [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
        lines.append("  ".join([*first, *rest]).rstrip())
    lines.append(f"ledger: {fates(report.ledger)}")
    return "\n".join(lines)


def cells(row: StageRow) -> tuple[str, ...]:
    """Return a stage's row as text: times per item, waits as a share of its workers' time."""
    workers = "inline" if row.executor == "inline" else f"{row.num_workers} {row.executor}"
    return (
        row.name,
        row.kind,
        workers,
        number(row.items_per_s),
        duration(row.service_ms),
        duration(row.cpu_ms),
        duration(row.p99_ms),
        number(row.mbytes_per_s),
        *waits(row),
    )


def fates(ledger: Mapping[str, Any]) -> str:
    """Return a ledger as one line: what was read, and what became of it."""
    parts = [
        f"{name.replace('_', ' ')} {count:,}"
        for name, count in ledger.items()
        if name not in ("read", "cached", "expanded", "balanced") and (count or name == "delivered")
    ]
    extra = f" + cached {ledger['cached']:,}" if ledger.get("cached") else ""
    extra += f" + expanded {ledger['expanded']:,}" if ledger.get("expanded") else ""
    state = "" if ledger.get("balanced") else " (not balanced)"
    return f"read {ledger['read']:,}{extra} = {' + '.join(parts)}{state}"


def duration(milliseconds: float | None) -> str:
    """Return a duration with three digits and its unit, "-" where it is not known."""
    if milliseconds is None:
        return "-"
    for unit, size in (("h", 3.6e6), ("min", 6e4), ("s", 1e3), ("ms", 1.0), ("µs", 1e-3)):
        if milliseconds >= size * 0.9995:  # which three digits show as one whole unit
            return f"{_digits(milliseconds / size)} {unit}"
    return f"{_digits(milliseconds * 1e6)} ns" if milliseconds else "0 s"


def _digits(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:,.0f}"


def number(value: float) -> str:
    """Return a rate with three digits."""
    if value >= 1:
        return f"{value:,.0f}" if value >= 99.95 else f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def waits(row: StageRow) -> tuple[str, str]:
    """Return the shares of time waited for data and for output; "-" where none of its own.

    A stage that runs inline waits in the consumer's thread, whose waits are the step's.
    """
    if row.executor == "inline" and row.kind not in ("step", "consumer"):
        return "-", "-"
    return f"{row.data_wait_share:.0%}", f"{row.output_wait_share:.0%}"
