"""The stages of a watched loader as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from stoker.measure.table import duration
from stoker.watching import table as t
from stoker.watching.facts import Facts
from stoker.watching.figures import Slot

_ROWS: Final = 12
_HEADER: Final = ("stage", "per", "time", "own", "cpu", "p99", "share", "GIL")


@dataclass(frozen=True)
class Row:
    """One stage. Times in ms, per sample or per batch."""

    name: str
    per: str
    time_ms: float | None
    own_ms: float | None = None
    """Without the stages inside it."""
    cpu_ms: float | None = None
    p99_ms: float | None = None
    share: float | None = None
    """Of the work on a batch; for waiting and step, of the loop."""
    gil_share: float | None = None
    """Share of its time in which it holds the GIL."""
    inside: bool = False
    """Part of the stage above it."""

    def to_dict(self) -> dict[str, Any]:
        """Return it JSON-able."""
        return asdict(self)


def rows_of(facts: Facts) -> Iterator[Row]:
    """Yield the stages from the data set to the step."""
    work, items = facts.work, facts.work[t.METERED_ITEMS]
    fetch = work.slot("fetch")
    whole_ns = fetch.wall_ns / items if items else 0.0  # for an item
    dataset = work.slot("dataset")
    if dataset.calls:
        yield _stage(facts, "getitem", "sample", "dataset", items, whole_ns, False)
    if work.slot("decode").calls:
        yield _stage(facts, "decode", "sample", "decode", items, whole_ns, True)
    hooked = work[t.HOOKED_ITEMS]
    for name in facts.transforms:
        if work.slot(name).calls:
            yield _stage(facts, name, "sample", name, hooked, whole_ns, True)
    batches = work[t.METERED_BATCHES]
    whole_ns = fetch.wall_ns / batches if batches else 0.0
    if work.slot("collate").calls:
        yield _stage(facts, "collate", "batch", "collate", batches, whole_ns, False)
    if not dataset.calls and fetch.calls:
        yield _stage(facts, "next()", "batch", "fetch", batches, 0.0, False)
    moved_ms = 1e3 * (facts.send_cpu_s + facts.receive_cpu_s)
    if facts.settings.num_workers and moved_ms:
        yield Row("transport", "batch", None, cpu_ms=moved_ms)
    if facts.loop.batches:
        wait = 1e3 * facts.wait_s
        yield Row("waiting for data", "batch", wait, share=facts.wait_share)
        yield Row("step", "batch", 1e3 * facts.step_s, share=1.0 - facts.wait_share)


def _stage(
    facts: Facts, name: str, per: str, key: str, count: int, whole_ns: float, inside: bool
) -> Row:
    slot: Slot = facts.work.slot(key)
    held = facts.gil_share(key)
    p99 = slot.histogram.quantile_ns(0.99)
    each = 1e6 * max(count, 1)
    own = slot.own_wall_ns if inside else slot.wall_ns
    return Row(
        name,
        per,
        slot.wall_ns / each,
        slot.own_wall_ns / each,
        slot.cpu_ns / each,
        p99 / 1e6 if p99 is not None else None,
        own / max(count, 1) / whole_ns if whole_ns else None,
        sum(held) / 2 if held else None,
        inside,
    )


def row_lines(rows: Sequence[Row]) -> list[str]:
    """Return the table, 80 columns wide at most; of many parts the largest only."""
    parts = sorted((row for row in rows if row.inside), key=lambda row: -(row.own_ms or 0.0))
    spare = max(_ROWS - sum(not row.inside for row in rows), 3)
    kept = [row for row in rows if not row.inside or row in parts[:spare]]
    cells = [_HEADER, *(_cells(row) for row in kept)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(_HEADER))]
    widths[0] = min(widths[0], 80 - sum(widths[1:]) - len(widths[1:]))
    lines = []
    for line in cells:
        name = line[0] if len(line[0]) <= widths[0] else line[0][: widths[0] - 1] + "…"
        rest = (cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))
        lines.append(" ".join([name.ljust(widths[0]), *rest]).rstrip())
    return lines


def _cells(row: Row) -> tuple[str, ...]:
    def share(part: float | None) -> str:
        return "-" if part is None else f"{part:.0%}"

    return (
        f"  {row.name}" if row.inside else row.name,
        row.per,
        duration(row.time_ms),
        duration(row.own_ms),
        duration(row.cpu_ms),
        duration(row.p99_ms),
        share(row.share),
        share(row.gil_share),
    )
