"""What the commands print with."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from contextvars import ContextVar
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from stoker.jsonable import to_json

_standard_output: ContextVar[TextIO | None] = ContextVar("standard_output", default=None)


@contextmanager
def only_json() -> Iterator[None]:
    """Keep standard output for the one object; what plugins and pipelines print goes aside."""
    token = _standard_output.set(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _standard_output.reset(token)


def forget_output() -> None:
    """Let what is left to print go nowhere: whoever read it has gone, and flushing would raise."""
    with suppress(AttributeError, OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())  # type: ignore[union-attr]


def print_json(thing: Any) -> None:
    """Print one JSON object to standard output."""
    print(to_json(thing, indent=1), file=_standard_output.get() or sys.stdout, flush=True)


def console(*, stderr: bool = False) -> Console:
    """Return a console that writes no colour where nobody sees it."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else 120
    return Console(stderr=stderr, highlight=False, width=width, soft_wrap=False)


def print_table(out: Console, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; its first column, which people copy from, stays in one piece."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for index, column in enumerate(header):
        table.add_column(column, overflow="fold", no_wrap=index == 0)
    for row in rows:
        table.add_row(*map(Text, row))
    with out.capture() as captured:
        out.print(table)
    for line in captured.get().splitlines():
        print(line.rstrip(), file=out.file)
