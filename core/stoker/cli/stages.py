"""`stoker stages`: all stages, or one with its parameters."""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import Annotated

import typer

from stoker.cli.options import Json
from stoker.cli.output import console, print_json, print_table
from stoker.errors import describe_given
from stoker.parameters import Parameter, parameters
from stoker.plugins import host

# Below this many columns a table of parameters is folded beyond recognition.
TABLE_WIDTH = 110


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
    out = console()
    print_table(
        out, ("stage", "kind", "what it does"), [(e.name, e.kind, e.summary) for e in entries]
    )
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
    print(f"{cls.name}  (kind {cls.kind}, lives on {cls.resource})\n")
    for paragraph in text.split("\n\n"):
        print(_flowing(paragraph, out.width), end="\n\n")
    if out.width >= TABLE_WIDTH:
        header = ("parameter", "default", "unit", "allowed", "meaning")
        print_table(out, header, [_row(parameter) for parameter in known.values()])
    else:
        for parameter in known.values():
            print(_paragraph(parameter, out.width))
    if cls.example:
        print(f"\nexample: {cls.example}")


def _flowing(paragraph: str, width: int) -> str:
    """Return a paragraph of a docstring wrapped anew, unless its lines are indented."""
    if re.search(r"^\s|^- ", paragraph, re.MULTILINE):
        return paragraph
    return textwrap.fill(paragraph, width, break_on_hyphens=False)


def _row(parameter: Parameter) -> tuple[str, ...]:
    default = "required" if parameter.required else describe_given(parameter.default)
    allowed = parameter.allowed.removesuffix(f" ({parameter.unit})")
    return parameter.name, default, parameter.unit, allowed, parameter.help


def _paragraph(parameter: Parameter, width: int) -> str:
    name, default, _, _, meaning = _row(parameter)
    lines = [f"{name}  (required)" if parameter.required else f"{name} = {default}"]
    for text in filter(None, (parameter.allowed, meaning)):
        indent = " " * 4
        lines.append(textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent))
    return "\n".join(lines)
