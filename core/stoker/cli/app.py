"""Puts the commands together and turns errors into messages and exit codes."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import typer

from stoker import __version__
from stoker.cli import data, plugins, run, stages
from stoker.errors import StokerError

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
    app.command("run")(run.run)
    app.add_typer(data.build(given), name="data")
    app.command("plugins")(plugins.plugins)
    app.command("stages")(stages.stages)
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
    try:
        code = build(given)(args=list(given), standalone_mode=False, prog_name="stoker")
        return int(code or 0)
    except typer.Exit as ending:
        return int(ending.exit_code)
    except _ParserError as error:
        if as_json:
            _tell_json(error.format_message(), error.exit_code)
        error.show()
        return int(error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        print("stoker: interrupted", file=sys.stderr)
        return INTERRUPTED
    except StokerError as error:
        if trace:
            traceback.print_exc()
        if as_json:
            _tell_json(str(error), error.exit_code)
        print(f"stoker: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone: nothing to tell
        return 1
    except Exception as error:
        if trace:
            traceback.print_exc()
        text = f"{type(error).__name__}: {error}"
        if as_json:
            _tell_json(text, 1)
        print(f"stoker: {text} (--traceback shows where)", file=sys.stderr)
        return 1


def _tell_json(error: str, code: int) -> None:
    print(json.dumps({"error": error, "exit_code": code}))
