"""`stoker analyze`: what holds a job back, what it costs, what to do."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stoker.cli import options
from stoker.cli.output import console, print_json
from stoker.errors import UsageError

if TYPE_CHECKING:
    from stoker.measure.snapshot import Report


def analyze(
    pipeline: Annotated[
        str | None,
        typer.Argument(
            metavar="[PIPELINE]",
            help="A registered name, package.module:function, or file.py:function.",
        ),
    ] = None,
    *,
    loader: Annotated[
        str | None,
        typer.Option(
            help="Analyse a loader as it is: module:function that makes a DataLoader or iterable."
        ),
    ] = None,
    step_ms: Annotated[
        float, typer.Option(help="With --loader: a step that takes so long a batch.", min=0.0)
    ] = 0.0,
    run: Annotated[Path | None, typer.Option(help="Explain a recorded run, by its folder.")] = None,
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            metavar="A B",
            help="Set two runs (or analyses as JSON) side by side; exit 3 when B is slower.",
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(help="How long to measure.", min=1.0)] = 10.0,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print as Markdown.")] = False,
    seed: options.Seed = None,
    max_steps: options.MaxSteps = None,
    device: Annotated[str | None, typer.Option(help="Torch device of the step.")] = None,
    sets: options.Set = None,
    swaps: options.Swap = None,
    args: options.Arg = None,
    as_json: options.Json = False,
) -> int:
    """Say what holds a job back: which stage, which resource, what it costs, what to do."""
    wanted = [
        name
        for name, given in (
            ("PIPELINE", pipeline), ("--loader", loader), ("--run", run), ("--compare", compare),
        )
        if given is not None
    ]  # fmt: skip
    if len(wanted) != 1:
        given = " and ".join(wanted) or "nothing"
        raise UsageError(
            f"{given} given: say one of PIPELINE, --loader, --run or --compare (stoker analyze -h)"
        )
    if compare is not None:
        return _compare(*compare, as_json)
    if run is not None:
        _recorded(run, as_json, markdown)
    elif loader is not None:
        _loader(loader, seconds, step_ms, as_json, markdown)
    else:
        assert pipeline is not None
        chosen = options.chosen(
            pipeline, seed=seed, max_steps=max_steps, sets=sets, swaps=swaps, args=args,
            device=device,
        )  # fmt: skip
        _pipeline(chosen, seconds, as_json, markdown)
    return 0


def _compare(a: Path, b: Path, as_json: bool) -> int:
    from stoker.analyze.compare import compare
    from stoker.errors import VerdictError

    compared = compare(a, b)
    if as_json:
        print_json(compared.to_dict())
    else:
        print(compared)
    return VerdictError.exit_code if compared.slower else 0


def _recorded(folder: Path, as_json: bool, markdown: bool) -> None:
    from stoker.analyze.diagnose import diagnose
    from stoker.analyze.recorded import recorded

    found = recorded(folder)
    versions = found.result.get("versions") or _versions()
    whole = found.evidence.windows[-1]
    _show(diagnose(found.evidence), found.evidence, whole, versions, as_json, markdown)


def _pipeline(chosen: Any, seconds: float, as_json: bool, markdown: bool) -> None:
    from stoker.analyze.session import analyze as measure

    with _Progress(as_json) as progress:
        found = measure(chosen, seconds, progress.hear)
    _show(found.diagnosis, found.evidence, found.whole, _versions(), as_json, markdown)


def _loader(target: str, seconds: float, step_ms: float, as_json: bool, markdown: bool) -> None:
    if ":" not in target:
        raise UsageError(f"--loader {target}: write it as module:function or file.py:function")
    from stoker.resolve import find
    from stoker.watching import analyze_loader

    report = analyze_loader(find(target), seconds, step_ms)
    if as_json:
        print_json({"version": _versions()["stoker"], **report.to_dict()})
    else:
        _print_text(str(report), markdown)


def _show(
    diagnosis: Any, evidence: Any, whole: Report, versions: Any, as_json: bool, markdown: bool
) -> None:
    from stoker.analyze.block import block
    from stoker.analyze.result import to_dict

    if as_json:
        print_json(to_dict(diagnosis, evidence, whole, versions))
        return
    command = shlex.join(["stoker", *(_without_folders(word) for word in sys.argv[1:])])
    _print_text(block(diagnosis, evidence, whole, versions, command), markdown)


def _print_text(text: str, markdown: bool) -> None:
    print(f"```\n{text}\n```" if markdown else text)


def _without_folders(word: str) -> str:
    """Return a word of the command line with the folders of an absolute path left out."""
    return Path(word).name if word.startswith(("/", "~")) else word


def _versions() -> dict[str, Any]:
    from stoker.measure.host import cpu_quota
    from stoker.run.versions import versions

    return {**versions(), "quota": cpu_quota()}


class _Progress:
    """Shows what is being measured, on standard error: the stage table on a terminal."""

    def __init__(self, as_json: bool) -> None:
        from rich.live import Live

        self._out = console(stderr=True)
        self._live = Live(console=self._out, transient=True) if self._out.is_terminal else None
        self._as_json = as_json

    def __enter__(self) -> _Progress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def hear(self, phase: str, report: Report | None) -> None:
        """Take what is measured, and a window where there is one."""
        from rich.console import Group
        from rich.text import Text

        from stoker.analyze.block import stage_lines

        if self._live is None:
            if report is None:
                self._out.print(f"measuring: {phase}", markup=False)
            return
        lines = [Text(line) for line in stage_lines(report.stages)] if report else []
        self._live.update(Group(*lines, Text(f"measuring: {phase}")))
