"""Finding what a run goes on from: `auto`, a run's folder, or a checkpoint's."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.engine.plan import Plan
from stoker.errors import CheckpointError, UsageError
from stoker.run import checkpoints
from stoker.run.checkpoints import Checkpoint
from stoker.run.identity import differences, identity
from stoker.run.lock import RunLock

AUTO = "auto"
FINISHED = "finished"
_ALLOWED = "give auto, the folder of a run, or that of one of its checkpoints"


@dataclass(frozen=True)
class Resumption:
    """A run to go on: its folder, locked, and the checkpoint."""

    run: Path
    checkpoint: Checkpoint
    lock: RunLock


def resumption(given: str, plan: Plan, runs: Path, notes: list[str]) -> Resumption | None:
    """Return what a run goes on from, or None where `auto` finds nothing.

    Args:
        given: `auto`, or a folder.
        plan: of the run.
        runs: the folder that `auto` looks in.
        notes: takes what people should know, such as checkpoints that were skipped.

    Raises:
        UsageError: no such folder, a run that is not this one, a live or a finished one.
        CheckpointError: no checkpoint there is whole.
    """
    if given != AUTO:
        return _given(Path(given), plan, notes)
    name = plan.pipeline.name
    for run in _unfinished(runs, name):
        try:
            return _open(run, None, plan, notes)
        except CheckpointError as error:
            notes.append(f"{run} was skipped: {error}")
        except _LiveError as error:
            notes.append(f"{run} was skipped: {error}")
    notes.append(f"no unfinished run of {name} with a checkpoint in {runs}: starting afresh")
    return None


def with_resume(command: str, run: Path) -> str:
    """Return a command line as it goes on with its run.

    `auto` finds it where the command made it; else the folder that was given need not lie in
    --runs, nor be the newest there.
    """
    given, words, rest = AUTO, [], iter(shlex.split(command))
    for word in rest:
        if word == "--resume":
            given = next(rest, AUTO)
        elif word.startswith("--resume="):
            given = word.partition("=")[2]
        else:
            words.append(word)
    return shlex.join([*words, "--resume", AUTO if given == AUTO else str(run)])


class _LiveError(UsageError):
    """A live run holds the folder."""


def _given(folder: Path, plan: Plan, notes: list[str]) -> Resumption:
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "no such folder"
        raise UsageError(f"--resume {folder}: {what}; {_ALLOWED}")
    folder = folder.resolve() if folder.name in ("", "..") else folder
    if folder.name == checkpoints.FOLDER:
        folder = folder.parent
    elif folder.parent.name == checkpoints.FOLDER:
        return _open(folder.parent.parent, folder, plan, notes)
    if not (folder / checkpoints.FOLDER).is_dir():
        raise UsageError(f"--resume {folder}: it holds no checkpoints; {_ALLOWED}")
    return _open(folder, None, plan, notes)


def _open(run: Path, chosen: Path | None, plan: Plan, notes: list[str]) -> Resumption:
    """Lock a run and take its newest whole checkpoint, or the chosen one."""
    try:
        lock = RunLock(run)
    except UsageError as error:
        raise _LiveError(str(error)) from error
    try:
        checkpoints.clean(run)
        found = checkpoints.read(chosen) if chosen is not None else _newest(run, notes)
        _judge(found, plan, _result(run))
        for path in checkpoints.abandon_newer(run, found.step):
            notes.append(f"{path}: put aside, since the run goes on from step {found.step}")
        notes.append(f"going on with {run} from step {found.step:,}")
    except BaseException:
        lock.release()
        raise
    return Resumption(run, found, lock)


def _newest(run: Path, notes: list[str]) -> Checkpoint:
    faults = []
    for _, path in checkpoints.listed(run):
        try:
            found = checkpoints.read(path)
        except CheckpointError as error:
            faults.append(str(error))
        else:
            notes.extend(f"skipped: {fault}" for fault in faults)
            return found
    raise CheckpointError(
        f"{run} has no checkpoint that is whole" + "".join(f"\n  - {fault}" for fault in faults)
    )


def _judge(found: Checkpoint, plan: Plan, result: dict[str, Any]) -> None:
    """Refuse to go on where that would be another run.

    Raises:
        UsageError: what differs, or that the run is over.
    """
    options = plan.pipeline.options
    different = list(differences(found.manifest["identity"], identity(plan)))
    epochs = found.manifest["epochs"]
    if options.epochs < epochs:
        different.append(f"epochs was {epochs} and is {options.epochs}: it may only grow")
    if different:
        lines = "".join(f"\n  - {line}" for line in different)
        raise UsageError(
            f"{found.folder} is of another run:{lines}\nrun it as it was, or leave --resume out "
            "to start afresh"
        )
    counters = found.state.get("counters")
    done = isinstance(counters, dict) and counters.get("evaluated")
    if result.get("status") == FINISHED and done and found.manifest["epoch"] == options.epochs - 1:
        raise UsageError(
            f"{found.folder} is of a run that is finished, with {epochs} epochs; to go on, give "
            f"--epochs above {epochs}"
        )


def _unfinished(runs: Path, pipeline: str) -> Iterator[Path]:
    """Yield the unfinished runs of a pipeline that have checkpoints, the last saved one first."""
    found = []
    for folder in runs.glob(f"*/{checkpoints.FOLDER}"):
        run = folder.parent
        if _result(run).get("status") == FINISHED:
            continue
        manifests = list(_manifests(run))
        if any(manifest["identity"].get("pipeline") == pipeline for manifest in manifests):
            saved = max(manifest["saved"] for manifest in manifests)
            found.append((saved, run.name, run))
    yield from (run for *_, run in sorted(found, reverse=True))


def _manifests(run: Path) -> Iterator[dict[str, Any]]:
    for _, path in checkpoints.listed(run):
        try:
            yield checkpoints.read_manifest(path)
        except CheckpointError:
            continue  # told when its run is opened


def _result(run: Path) -> dict[str, Any]:
    try:
        result = json.loads((run / "result.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}  # a killed run has none
    return result if isinstance(result, dict) else {}
