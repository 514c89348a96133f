"""What a watch found: the verdict in one line, the findings, the stages, the outlook."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from stoker.watching import settings, work
from stoker.watching.facts import Facts
from stoker.watching.finding import Finding
from stoker.watching.model import Model
from stoker.watching.outlook import Outlook, outlook
from stoker.watching.rows import Row, row_lines, rows_of

WIDTH, LINES = 80, 25
# With less waiting than this share of the time, the loader does not hold the step up.
_FED: Final = 0.05
_SHOWN: Final = 4


@dataclass(frozen=True)
class WatchReport:
    """What was found; `print` gives a block of 25 lines of 80 columns at most."""

    headline: str
    """The verdict: alone, it tells what to do."""
    findings: tuple[Finding, ...]
    """The largest predicted gain first."""
    stages: tuple[Row, ...]
    as_stoker: Outlook
    figures: dict[str, Any]
    """The loop and the loader, by name and unit."""
    cautions: tuple[str, ...]

    def finding(self, name: str) -> Finding | None:
        """Return the finding of a name, or None where the loader does not waste that."""
        return next((one for one in self.findings if one.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        """Return it JSON-able."""
        return {
            "headline": self.headline,
            "findings": [finding.to_dict() for finding in self.findings],
            "stages": [row.to_dict() for row in self.stages],
            "as_stoker": self.as_stoker.to_dict(),
            "figures": self.figures,
            "cautions": list(self.cautions),
        }

    def __str__(self) -> str:
        head = [*_wrapped("", self.headline), _rates(self.figures)]
        tail = [*_wrapped("", str(self.as_stoker)), _footer(self.figures)]
        table = row_lines(self.stages)
        notes: list[list[str]] = []
        for finding in self.findings[:_SHOWN]:
            gain = f" ({finding.gain})" if finding.gain else ""
            lines = _wrapped("- ", f"{finding.headline}{gain}")
            notes.append([*lines, *_wrapped("  > ", finding.advice)])
        notes += [_wrapped("! ", caution) for caution in self.cautions]
        room = LINES - len(head) - len(tail) - len(table)
        kept: list[str] = []
        for note in notes:  # whole notes only, the most important first
            if len(kept) + len(note) <= room:
                kept += note
        return "\n".join([*head, *kept, *table, *tail][:LINES])


def report_of(facts: Facts) -> WatchReport:
    """Return what can be concluded from what was measured."""
    model = Model(facts)
    found = [*settings.findings(facts, model), *work.findings(facts, model)]
    found.sort(key=lambda finding: -finding.worth)
    return WatchReport(
        _headline(facts, found),
        tuple(found),
        tuple(rows_of(facts)),
        outlook(facts, model),
        _figures(facts, model),
        tuple(facts.cautions),
    )


def _headline(facts: Facts, found: Sequence[Finding]) -> str:
    if not facts.loop.batches:
        return "undetermined: no batch was taken from the watched loader yet"
    waited = f"waiting for data {facts.wait_share:.0%} of the time"
    if facts.wait_share < _FED:
        return f"do nothing: the step is the bottleneck ({waited})"
    if not found:
        return f"nothing found that the loader wastes ({waited})"
    first = found[0]
    gain = f" ({first.gain})" if first.gain else ""
    text = f"{first.headline}{gain}"
    return text if len(text) <= WIDTH else first.headline


def _figures(facts: Facts, model: Model) -> dict[str, Any]:
    loop, size, total = facts.loop, facts.batch_size, facts.total_s
    rate = loop.batches / total if total else None
    return {
        "kind": facts.settings.kind,
        "num_workers": facts.settings.num_workers,
        "prefetch_factor": facts.settings.prefetch_factor if facts.settings.num_workers else None,
        "persistent_workers": facts.settings.persistent_workers,
        "pin_memory": facts.settings.pin_memory,
        "batch_size": size,
        "cores": facts.cores,
        "epochs": len(loop.epochs),
        "batches": loop.batches,
        "batches_per_s": rate,
        "samples_per_s": rate * size if rate is not None and size else None,
        "wait_share": facts.wait_share,
        "first_batch_ms": _first_batch_ms(facts),
        "epoch_pause_ms": 1e3 * facts.pause_s,
        "queue_fill": facts.fill,
        "worker_cpu_ms_per_batch": _ms(facts.worker_cpu_s),
        "workers": [asdict(worker) for worker in facts.work.workers] if facts.is_multi else [],
        "library_cpu_ms_per_batch": 1e3 * facts.library_cpu_s,
        "torch_threads_per_worker": facts.work.torch_threads or None,
        "blocked_share": facts.blocked_share,
        "measured_over_simulated": model.misfit,
    }


def _first_batch_ms(facts: Facts) -> float | None:
    first = [epoch.make_ns + epoch.first_ns for epoch in facts.loop.epochs if epoch.batches]
    return sum(first) / len(first) / 1e6 if first else None


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1e3 * seconds


def _rates(figures: dict[str, Any]) -> str:
    from stoker.measure.table import duration, number

    parts = []
    if figures["samples_per_s"] is not None:
        parts.append(f"{number(figures['samples_per_s'])} samples/s")
    if figures["batches_per_s"] is not None:
        parts.append(f"{number(figures['batches_per_s'])} batches/s")
    parts.append(f"waiting {figures['wait_share']:.0%}")
    if figures["first_batch_ms"] is not None:
        parts.append(f"first batch {duration(figures['first_batch_ms'])}")
    if figures["queue_fill"] is not None:
        parts.append(f"fill {figures['queue_fill']:.0%}")
    return f"Now {', '.join(parts)}"[:WIDTH]


def _footer(figures: dict[str, Any]) -> str:
    from stoker.run.versions import versions

    found = versions()
    workers = figures["num_workers"]
    return (
        f"{figures['epochs']} epochs, {figures['batches']} batches, {workers} workers on "
        f"{figures['cores']:g} cores; torch {found['torch']}, Python {found['python']}"
    )[:WIDTH]


def _wrapped(mark: str, text: str) -> list[str]:
    indent = " " * len(mark) if mark else "  "
    return textwrap.wrap(
        text, WIDTH, initial_indent=mark, subsequent_indent=indent, break_on_hyphens=False
    )
