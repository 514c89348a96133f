"""`stoker data NAME`: make a data set. Names and options come from plugins."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from stoker.cli.output import console, print_json
from stoker.errors import UsageError
from stoker.plugins import host
from stoker.typed import signature_of


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

    @app.callback()
    def _data() -> None:
        """Make a data set."""

    if not given or given[0] != "data":  # other commands do with no plugin, or a broken one
        return app
    wanted = given[1] if len(given) > 1 else ""
    if wanted and not wanted.startswith("-") and wanted not in host().data:
        host().data_maker(wanted)  # raises, with the nearest right name
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
            print_json(made if isinstance(made, Mapping) else {"made": made})
        else:
            _tell(name, made if isinstance(made, Mapping) else {}, time.perf_counter() - started)

    json_option = inspect.Parameter(
        "as_json",
        inspect.Parameter.KEYWORD_ONLY,
        default=typer.Option(False, "--json", help="Print one JSON object and nothing else."),
        annotation=bool,
    )
    signature = signature_of(maker)
    meanings = argument_help(maker)
    parameters = [
        *(_described(one, meanings.get(one.name)) for one in signature.parameters.values()),
        json_option,
    ]
    plain: Any = call
    plain.__signature__ = signature.replace(parameters=parameters, return_annotation=None)
    plain.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _tell(name: str, made: Mapping[str, Any], took_s: float) -> None:
    facts = ", ".join(f"{key} {value}" for key, value in made.items() if key != "out")
    line = f"{made.get('out', name)}: {facts or 'done'} ({took_s:.1f} s)"
    console().print(line, markup=False, soft_wrap=True)


def _described(parameter: inspect.Parameter, meaning: str | None) -> inspect.Parameter:
    """Return a parameter as Typer's argument or option, with its meaning as help."""
    make: Any = typer.Argument if parameter.default is parameter.empty else typer.Option
    kind = str if isinstance(parameter.annotation, str) else parameter.annotation
    return parameter.replace(
        annotation=Annotated[str if kind is parameter.empty else kind, make(help=meaning)]
    )


def argument_help(function: Callable[..., Any]) -> dict[str, str]:
    """Return the meaning of each argument, from the "Args:" of a docstring."""
    meanings: dict[str, str] = {}
    name, inside = "", False
    for line in (inspect.getdoc(function) or "").splitlines():
        depth = len(line) - len(line.lstrip())
        if not depth and line:
            inside = line.strip() == "Args:"
        elif inside and depth == 4:
            name, _, meaning = line.strip().partition(":")
            meanings[name] = meaning.strip()
        elif inside and name and line.strip():
            meanings[name] += f" {line.strip()}"
    return meanings
