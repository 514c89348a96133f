"""`stoker run`: run a pipeline to its end."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stoker.cli import options
from stoker.cli.output import console, print_json
from stoker.errors import RunError

if TYPE_CHECKING:
    from stoker.run.interrupts import Interrupted


def run(
    context: typer.Context,
    pipeline: options.Name,
    *,
    plan: Annotated[bool, typer.Option("--plan", help="Print the plan and run nothing.")] = False,
    seed: options.Seed = None,
    max_steps: options.MaxSteps = None,
    max_time: Annotated[
        float | None, typer.Option(help="Stop after so many seconds.", min=0.0)
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the data.", min=1)] = None,
    device: Annotated[str | None, typer.Option(help="Torch device of the step.")] = None,
    precision: Annotated[str | None, typer.Option(help="Precision policy: fp32, bf16.")] = None,
    sets: options.Set = None,
    swaps: options.Swap = None,
    args: options.Arg = None,
    save_every_steps: Annotated[
        int | None, typer.Option(help="Batches between two checkpoints.", min=1)
    ] = None,
    save_every_minutes: Annotated[
        float | None, typer.Option(help="Minutes between two checkpoints.", min=0.0)
    ] = None,
    keep_checkpoints: Annotated[
        int | None, typer.Option(help="Newest checkpoints to keep.", min=1)
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="auto|FOLDER",
            help="Go on: with the newest unfinished run of this pipeline in --runs, "
            "or from the folder of a run or checkpoint.",
        ),
    ] = None,
    runs: Annotated[Path, typer.Option(help="Folder that holds the runs.")] = Path("runs"),
    as_json: options.Json = False,
) -> None:
    """Run a pipeline: train or evaluate, with every stage metered.

    Writes metrics.jsonl, result.json, report.md and checkpoints to a folder of its own.
    """
    from stoker.cli.live import LiveTable, summary
    from stoker.engine.forecast import forecast
    from stoker.engine.plan import make_plan
    from stoker.run.interrupts import Interrupted
    from stoker.run.runner import Run

    chosen = options.chosen(
        pipeline,
        seed=seed,
        max_steps=max_steps,
        sets=sets,
        swaps=swaps,
        args=args,
        max_time=max_time,
        epochs=epochs,
        device=device,
        precision=precision,
        save_every_steps=save_every_steps,
        save_every_minutes=save_every_minutes,
        keep_checkpoints=keep_checkpoints,
    )
    if plan:
        made = make_plan(chosen, needs_step=True)
        predicted = forecast(made)
        if as_json:
            print_json({**made.to_dict(), "cache": predicted.to_dict() if predicted else None})
        else:
            print(made, *([f"  predicted: {predicted}"] if predicted else []), sep="\n")
        return
    out = console(stderr=as_json)
    with LiveTable(out) as live:
        command = shlex.join(["stoker", *context.obj])
        started = Run(chosen, runs=runs, observers=[live], command=command, resume=resume)
        for note in started.notes:
            out.print(note, markup=False, soft_wrap=True)
        try:
            result: dict[str, Any] = started.execute()
        except Interrupted as stop:
            raise _ended(stop) from stop
        except BaseException:
            out.print(f"measured until then: {started.folder.path}", markup=False, soft_wrap=True)
            raise
    if as_json:
        print_json(result)
    else:
        summary(out, result)


def _ended(stop: Interrupted) -> RunError:
    """Return an interruption as an error: Typer would make a silent code of any other."""
    error = RunError(str(stop))
    error.exit_code = stop.exit_code
    return error
