"""Puts the commands together and turns errors into messages and exit codes."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import typer

from stoker import __version__
from stoker.cli import analyze, data, plugins, run, stages
from stoker.cli.output import forget_output, only_json, print_json
from stoker.errors import StokerError, reason_of

INTERRUPTED = 130

# What a parser raises on wrong use; Typer exports only its children.
_ParserError: Any = next(
    cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException"
)


def build(given: Sequence[str]) -> typer.Typer:
    """Return the whole command line."""
    app = typer.Typer(
        name="stoker",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        epilog="--traceback, anywhere: show the whole trace of an error.",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    app.command("run", short_help="Run a pipeline to its end, or show its plan.")(run.run)
    app.command("analyze", short_help="Say what holds a job back.")(analyze.analyze)
    app.command("plugins", short_help="List plugins, and what is broken.")(plugins.plugins)
    app.command("stages", short_help="List stages, or show one.")(stages.stages)
    app.add_typer(data.build(given), name="data")
    return app


def _version(wanted: bool) -> None:
    if wanted:
        print(f"stoker {__version__}")
        raise typer.Exit


def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Keeps a GPU fed, and proves it."""


def run_app(given: Sequence[str], trace: bool) -> int:
    """Run the commands; return the exit code. Errors are told in a message each."""
    as_json = "--json" in given
    with only_json() if as_json else nullcontext():
        try:
            code = build(given)(
                args=list(given), standalone_mode=False, prog_name="stoker", obj=list(given)
            )
            sys.stdout.flush()
            if code == INTERRUPTED:  # Typer made a silent code of it
                raise KeyboardInterrupt
            return int(code or 0)
        except typer.Exit as ending:
            return int(ending.exit_code)
        except BaseException as error:
            if _reader_gone(error):
                forget_output()
                return 1
            code, text = _explained(error)
            if as_json:
                print_json({"error": text, "exit_code": code})
            if trace:
                traceback.print_exc()
            if isinstance(error, _ParserError):
                error.show()  # with the usage of the command
            else:
                print(f"stoker: {text}", file=sys.stderr)
            return code


def _reader_gone(error: BaseException) -> bool:
    """Tell whether writing failed since nobody reads; Typer may have made an exit of that."""
    inner = error.__context__ if isinstance(error, SystemExit) else error
    return isinstance(inner, BrokenPipeError)


def _explained(error: BaseException) -> tuple[int, str]:
    """Return the exit code and the message of an error."""
    if isinstance(error, _ParserError):
        return int(error.exit_code), error.format_message()
    if isinstance(error, (KeyboardInterrupt, typer.Abort)):
        return INTERRUPTED, "interrupted"
    if isinstance(error, StokerError):
        return error.exit_code, str(error)
    return 1, f"{reason_of(error)} (--traceback shows where)"
