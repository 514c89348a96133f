"""Options that every command with a pipeline takes, and what they make of it."""

from __future__ import annotations

from typing import Annotated

import typer

from stoker.pipeline import Pipeline
from stoker.resolve import Changes, configured

Name = Annotated[
    str,
    typer.Argument(
        metavar="PIPELINE",
        help="A registered name, package.module:function, or file.py:function.",
        show_default=False,
    ),
]
Seed = Annotated[int | None, typer.Option(help="Seed of order, augmentation and weights.", min=0)]
MaxSteps = Annotated[int | None, typer.Option(help="Stop after so many batches.", min=1)]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="STAGE.PARAMETER=VALUE",
        help="Set a stage's parameter (or, without a stage, a pipeline option).",
    ),
]
Swap = Annotated[
    list[str] | None,
    typer.Option("--swap", metavar="STAGE=OTHER", help="Put another stage in a stage's place."),
]
Arg = Annotated[
    list[str] | None,
    typer.Option("--arg", metavar="NAME=VALUE", help="Argument of the pipeline's function."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def chosen(
    name: str,
    *,
    seed: int | None,
    max_steps: int | None,
    sets: list[str] | None,
    swaps: list[str] | None,
    args: list[str] | None,
    **options: object,
) -> Pipeline:
    """Return the pipeline that the command line names, with its changes."""
    options |= {"seed": seed, "max_steps": max_steps}
    return configured(name, Changes(args or (), swaps or (), sets or (), options))
