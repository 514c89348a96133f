"""`stoker plugins`: what is plugged in, from where, and what is broken."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from stoker.cli.options import Json
from stoker.cli.output import console, print_json
from stoker.errors import UsageError, unknown_name
from stoker.plugins import host


def plugins(
    name: Annotated[
        str | None, typer.Argument(help="Show one plugin, with the trace of its error.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List plugins: name, distribution and version, state, what each brings."""
    found = host()
    shown = found.plugins
    if name is not None:
        shown = [plugin for plugin in shown if plugin.name == name]
        if not shown:
            known = [plugin.name for plugin in found.plugins]
            raise UsageError(unknown_name("plugin", name, known))
    if as_json:
        print_json({"plugins": [asdict(plugin) for plugin in shown], "notes": found.notes})
        return
    out = console()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("plugin", "distribution", "state", "brings"):
        table.add_column(column, overflow="fold")
    for plugin in shown:
        brings = "; ".join(
            f"{family}: {', '.join(names)}" for family, names in plugin.brings.items() if names
        )
        told = plugin.error if plugin.state == "broken" else brings
        table.add_row(*map(Text, (plugin.name, plugin.source, plugin.state, told)))
    out.print(table)
    if name is not None and shown[0].trace:
        out.print(shown[0].trace, markup=False)
    for note in found.notes:
        out.print(f"note: {note}", markup=False)
