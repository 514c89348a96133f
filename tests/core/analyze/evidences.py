"""Hand-made evidence for tests of the verdicts."""

from __future__ import annotations

from typing import Any

from stoker.analyze.evidence import Evidence, HostUse
from stoker.measure.snapshot import Report, StageRow


def row(name: str, **changes: Any) -> StageRow:
    """A stage that is idle, but for the changes."""
    facts: dict[str, Any] = {
        "name": name,
        "kind": name.split(".")[0],
        "segment": 0,
        "executor": "thread",
        "num_workers": 1,
        "items": 100,
        "failures": 0,
        "items_per_s": 100.0,
        "mbytes_per_s": 1.0,
        "service_ms": 0.01,
        "p99_ms": 0.02,
        "cpu_ms": 0.01,
        "runqueue_ms": 0.0,
        "blocked_ms": 0.0,
        "data_wait_share": 0.0,
        "output_wait_share": 0.99,
        "queue_fill": 0.0,
    }
    return StageRow(**{**facts, **changes})


def step(**changes: Any) -> StageRow:
    """A step that waits for data most of the time."""
    facts = {
        "segment": 9,
        "executor": "inline",
        "service_ms": 0.2,
        "cpu_ms": 0.01,
        "data_wait_share": 0.98,
        "output_wait_share": 0.0,
    }
    return row("step.timed", **{**facts, **changes})


def report(*rows: StageRow, window_s: float = 1.0, cpu_s: float = 0.5) -> Report:
    """One window."""
    return Report("planted", window_s, tuple(rows), {"read": 1, "balanced": True}, cpu_s, 0.0, 0)


def evidence(*rows: StageRow, windows: int = 5, **facts: Any) -> Evidence:
    """Evidence of equal windows."""
    facts.setdefault("host", HostUse(4.0, own=0.5, others=0.0))
    return Evidence("planted", [report(*rows)] * windows, **facts)
