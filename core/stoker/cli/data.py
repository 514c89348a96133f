"""`stoker data NAME`: make a data set. Names and options come from plugins."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Sequence
from typing import Any

import typer

from stoker.cli.output import console, print_json
from stoker.errors import UsageError
from stoker.plugins import host


def build(given: Sequence[str]) -> typer.Typer:
    """Return the commands for all registered data sets.

    Only the one that `given` calls is imported: its signature makes its options.
    """
    app = typer.Typer(
        help="Make a data set.",
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    wanted = given[1] if len(given) > 1 and given[0] == "data" else ""
    if wanted and not wanted.startswith("-") and wanted not in host().data:
        host().data_maker(wanted)  # raises, with the nearest right name

    @app.callback()
    def _data() -> None:
        """Make a data set."""

    for name, entry in sorted(host().data.items()):
        if name == wanted:
            maker = host().data_maker(name)
            app.command(name, help=_summary(maker))(_command(name, maker))
        else:
            app.command(name, help=entry.summary)(_nothing)
    return app


def _nothing() -> None:
    """Stand for a command that was not called."""


def _summary(maker: Callable[..., Any]) -> str:
    return (inspect.getdoc(maker) or "").split("\n\n")[0]


def _command(name: str, maker: Callable[..., Any]) -> Callable[..., None]:
    """Return the command that calls a maker, with options by its signature."""
    signature = inspect.signature(maker, eval_str=True)

    @functools.wraps(maker)
    def call(*args: Any, as_json: bool = False, **given: Any) -> None:
        started = time.perf_counter()
        try:
            made = maker(*args, **given)
        except OSError as error:
            path = f": {error.filename}" if error.filename else ""
            reason = error.strerror or str(error)
            raise UsageError(f"stoker data {name}: {reason}{path}") from error
        if as_json:
            print_json(made)
            return
        facts = ", ".join(f"{key} {value}" for key, value in made.items() if key != "out")
        took = time.perf_counter() - started
        line = f"{made.get('out', name)}: {facts} ({took:.1f} s)"
        console().print(line, markup=False, soft_wrap=True)

    json_option = inspect.Parameter(
        "as_json",
        inspect.Parameter.KEYWORD_ONLY,
        default=typer.Option(False, "--json", help="Print one JSON object and nothing else."),
        annotation=bool,
    )
    parameters = [*signature.parameters.values(), json_option]
    plain: Any = call
    plain.__signature__ = signature.replace(parameters=parameters, return_annotation=None)
    plain.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call
