"""`stoker stages`: all stages, or one with its parameters."""

from __future__ import annotations

import inspect
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from stoker.cli.options import Json
from stoker.cli.output import console, print_json
from stoker.parameters import Parameter, parameters
from stoker.plugins import host


def stages(
    name: Annotated[
        str | None, typer.Argument(help="Show one stage: parameters, units, defaults, example.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List stages, or show one."""
    if name is not None:
        _one(name, as_json)
        return
    entries = list(host().stages.values())
    if as_json:
        listed = [{"name": e.name, "kind": e.kind, "summary": e.summary} for e in entries]
        print_json({"stages": listed})
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("stage", "kind", "what it does"):
        table.add_column(column, overflow="fold")
    for entry in entries:
        table.add_row(*map(Text, (entry.name, entry.kind, entry.summary)))
    out = console()
    out.print(table)
    for note in host().notes:
        out.print(f"note: {note}", markup=False)


def _one(name: str, as_json: bool) -> None:
    cls = host().stage_class(name)
    known = parameters(cls)
    text = inspect.getdoc(cls) or ""
    if as_json:
        facts = [
            {
                "name": p.name,
                "type": p.type,
                "default": None if p.required else p.default,
                "required": p.required,
                "unit": p.unit,
                "minimum": p.minimum,
                "maximum": p.maximum,
                "help": p.help,
            }
            for p in known.values()
        ]
        print_json(
            {
                "name": cls.name,
                "kind": cls.kind,
                "resource": cls.resource,
                "description": text,
                "parameters": facts,
                "example": cls.example,
            }
        )
        return
    out = console()
    out.print(f"{cls.name}  (kind {cls.kind}, lives on {cls.resource})\n", markup=False)
    out.print(text + "\n", markup=False)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("parameter", "default", "unit", "allowed", "meaning"):
        table.add_column(column, overflow="fold")
    for parameter in known.values():
        table.add_row(*map(Text, _row(parameter)))
    out.print(table)
    if cls.example:
        out.print(f"\nexample: {cls.example}", markup=False)


def _row(parameter: Parameter) -> tuple[str, ...]:
    default = "required" if parameter.required else repr(parameter.default)
    allowed = parameter.allowed.removesuffix(f" ({parameter.unit})")
    return parameter.name, default, parameter.unit, allowed, parameter.help
