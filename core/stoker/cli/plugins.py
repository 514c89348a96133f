"""`stoker plugins`: what is plugged in, from where, and what is broken."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from stoker.cli.options import Json
from stoker.cli.output import console, print_json, print_table
from stoker.errors import UsageError, unknown_name
from stoker.plugins import host
from stoker.vetting import Plugin


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
    header = ("plugin", "distribution", "state", "brings")
    print_table(out, header, [(p.name, p.source, p.state, _told(p)) for p in shown])
    if name is not None and shown[0].trace:
        out.print(shown[0].trace, markup=False)
    for note in found.notes:
        out.print(f"note: {note}", markup=False)


def _told(plugin: Plugin) -> str:
    """Return what a plugin brings, or what broke it."""
    if plugin.state == "broken":
        return plugin.error
    return "; ".join(
        f"{family}: {', '.join(names)}" for family, names in plugin.brings.items() if names
    )
