"""What a run shows while it runs: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from stoker.measure.snapshot import StageRow
from stoker.measure.table import HEADER, cells, duration, fates, number
from stoker.observer import Observer

# Columns to leave out first where a terminal is narrow.
_EXPENDABLE = ("MB/s", "p99", "kind", "out", "cpu", "workers")


class LiveTable(Observer):
    """Shows windows as they come. Enter it around the run."""

    name = "live table"

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._evaluation = ""

    def __enter__(self) -> LiveTable:
        if self._console.is_terminal:
            self._live = Live(console=self._console, refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def on_start(self, plan: Mapping[str, Any], folder: str) -> None:
        for caution in plan["cautions"]:
            self._console.print(f"caution: {caution}", style="yellow", markup=False)
        if self._live is None:
            line = f"running {plan['pipeline']} on {plan['device']}, into {folder}"
            self._console.print(line, markup=False, soft_wrap=True)

    def on_window(self, window: Mapping[str, Any]) -> None:
        line = progress_line(window)
        if self._evaluation:
            line += f"  {self._evaluation}"
        if self._live is not None:
            rows = [StageRow(**row) for row in window["stages"]]
            self._live.update(Group(stage_table(rows, self._console.width), Text(line)))
        else:
            self._console.print(line, markup=False, soft_wrap=True)

    def on_evaluation(self, epoch: int, metrics: Mapping[str, float]) -> None:
        values = ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
        self._evaluation = f"evaluation: {values}"
        self._console.print(f"epoch {epoch + 1}: {values}", markup=False)


def progress_line(window: Mapping[str, Any]) -> str:
    """Return how far a run is: epoch, step, rate, time left, loss."""
    steps, total, elapsed = window["steps"], window["total_steps"], window["elapsed_s"]
    line = f"epoch {window['epoch'] + 1}/{window['epochs']}  step {steps:,}"
    if total:
        line += f"/{total:,}"
    rate = window["stages"][-1]["items_per_s"]
    line += f"  {number(rate)} samples/s"
    if total and steps and steps < total:
        line += f"  {duration(elapsed / steps * (total - steps) * 1e3)} left"
    if window["loss"] is not None:
        line += f"  loss {window['loss']:.4f}"
    return line


def stage_table(rows: Sequence[StageRow], width: int) -> Table:
    """Return the per-stage table, with as many columns as the width holds."""
    body = [cells(row) for row in rows]
    shown = list(range(len(HEADER)))
    for name in _EXPENDABLE:
        needed = sum(max(len(HEADER[i]), *(len(line[i]) for line in body)) + 2 for i in shown)
        if needed <= width:
            break
        shown.remove(HEADER.index(name))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for i in shown:
        table.add_column(HEADER[i], justify="left" if i < 2 else "right", no_wrap=True)
    for line in body:
        table.add_row(*(Text(line[i]) for i in shown))
    return table


def summary(console: Console, result: Mapping[str, Any]) -> None:
    """Print what came of a run."""
    rows = [StageRow(**row) for row in result["stages"]]
    throughput = result["throughput"] or 0.0
    console.print(
        f"\n{result['pipeline']}: {result['status']}, {result['steps']:,} steps, "
        f"{result['samples']:,} samples in {duration(result['training_s'] * 1e3)}, "
        f"{number(throughput)} samples/s",
        markup=False,
    )
    console.print(stage_table(rows, console.width))
    console.print(f"ledger: {fates(result['ledger'])}", markup=False)
    if result["evaluation"]:
        values = ", ".join(f"{name} {value:.4f}" for name, value in result["evaluation"].items())
        console.print(f"evaluation: {values}", markup=False)
    console.print(f"written to {result['run']}", markup=False, soft_wrap=True)
