"""Kills a training job at random moments, goes on with it, and compares with the unbroken run."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
JOB = ROOT / "bench" / "faults_job.py"
_MARK = "STOKER_FAULTS"
_RUN = "import sys; from stoker.cli import main; sys.argv[0] = 'stoker'; sys.exit(main())"
# What ends with its parent ends within this.
_GONE_S = 3.0


@dataclass
class Outcome:
    """What became of a job."""

    losses: list[float]
    order: str
    """Digest of all keys in the order in which they were trained on."""
    delivered: int
    balanced: bool
    weights: dict[str, Any]
    """Model, optimizer and schedule of the last checkpoint, tensors as lists."""
    kills: int = 0
    restarts_from: list[int] = field(default_factory=list)
    """Steps at which it was gone on with."""
    left_over: list[str] = field(default_factory=list)
    """Files, processes and shared memory that should not be there."""

    def differences(self, other: Outcome) -> list[str]:
        """Return what is not as it is in another outcome."""
        names = ("losses", "order", "delivered", "balanced", "weights")
        return [name for name in names if getattr(self, name) != getattr(other, name)]


@dataclass(frozen=True)
class Pace:
    """How long the job takes when it is left alone, in s."""

    start_s: float
    """Until it begins to work."""
    work_s: float


def unbroken(runs: Path, args: Sequence[str] = ()) -> tuple[Outcome, Pace]:
    """Run the job to its end; return what came of it, and how long it took."""
    begun = time.monotonic()
    process = _start(runs, args)
    _works(runs, process, 0)
    working = time.monotonic()
    if process.wait():
        raise RuntimeError(f"the unbroken run ended with {process.returncode}")
    return _outcome(runs), Pace(working - begun, time.monotonic() - working)


def killed(runs: Path, kills: int, pace: Pace, seed: int, args: Sequence[str] = ()) -> Outcome:
    """Kill the job so many times with SIGKILL, go on each time, and let it end.

    Args:
        runs: a fresh folder for its run.
        kills: how many.
        pace: of the job when it is left alone.
        seed: of the moments.
        args: of the pipeline, as the command line takes them.
    """
    draw = random.Random(seed)
    shared = _shared_memory()
    mark = f"{os.getpid()}-{seed}"
    done = 0
    left: list[str] = []
    while True:
        known = _length(runs)
        process = _start(runs, args, mark)
        if done == kills or not _kill(process, runs, known, pace, draw):
            break
        done += 1
        left += _survivors(mark)
        if any(runs.glob("*/result.json")):
            break  # it was through, and on its way out
    if process.wait() not in (0, -signal.SIGKILL):
        raise RuntimeError(f"the job ended with {process.returncode}")
    outcome = _outcome(runs)
    outcome.kills = done
    outcome.left_over = left + _survivors(mark) + _left_in_memory(shared) + _stray(runs)
    return outcome


def _kill(
    process: subprocess.Popen[bytes], runs: Path, known: int, pace: Pace, draw: random.Random
) -> bool:
    """Kill the job at some moment; return False where it ended before.

    The job alone, as an out-of-memory killer does: its children are to see to it themselves.
    """
    if draw.random() < 0.8:  # else while it still starts
        _works(runs, process, known)
        wait_s = draw.uniform(0.0, 0.8) * pace.work_s
    else:
        wait_s = draw.uniform(0.0, 0.9) * pace.start_s
    try:
        process.wait(wait_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return True
    return False


def _works(runs: Path, process: subprocess.Popen[bytes], known: int) -> None:
    """Wait until a job writes more than it had written, or ends."""
    while process.poll() is None and _length(runs) <= known:
        time.sleep(0.005)


def _length(runs: Path) -> int:
    """Return how much runs have written: files, and bytes of metrics."""
    return sum(
        1 + (path.stat().st_size if path.suffix else 0) for path in runs.glob("*/*.jsonl")
    ) + len(list(runs.iterdir()))


def _start(runs: Path, args: Sequence[str], mark: str = "") -> subprocess.Popen[bytes]:
    given = [word for arg in args for word in ("--arg", arg)]
    paths = [str(ROOT / part) for part in ("core", "plugins", "pipelines", "")]
    inherited = os.environ.get("PYTHONPATH")
    environment = {
        **os.environ,
        _MARK: mark,
        "PYTHONPATH": os.pathsep.join([*paths, *([inherited] if inherited else [])]),
    }
    command = ["run", f"{JOB}:job", "--runs", str(runs), "--resume", "auto", *given]
    return subprocess.Popen(
        [sys.executable, "-c", _RUN, *command],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL if mark else None,
    )


def _outcome(runs: Path) -> Outcome:
    import torch

    folder = _lineage(runs)
    result = json.loads((folder / "result.json").read_text())
    if result["status"] != "finished":
        raise RuntimeError(f"the job says {result['status']}: {result['error']}")
    steps = {int(path.name.partition("-")[2]): path for path in folder.glob("checkpoints/step-*")}
    state = torch.load(steps[max(steps)] / "state.pt", weights_only=True)
    events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return Outcome(
        result["losses"],
        result["order"],
        result["ledger"]["delivered"],
        result["ledger"]["balanced"],
        _plain(state["step"]),
        restarts_from=[one["steps"] for one in events if one["event"] == "resumed"],
    )


def _lineage(runs: Path) -> Path:
    """Return the run that survived; one that was killed before it had saved anything did not."""
    [result] = runs.glob("*/result.json")
    return result.parent


def _plain(value: Any) -> Any:
    """Return a tree of tensors as one of lists, to be compared bit for bit."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value.tolist() if hasattr(value, "tolist") else value


def _survivors(mark: str) -> list[str]:
    """Return processes of a job that are there although it was ended, after some patience."""
    deadline = time.monotonic() + _GONE_S
    while (found := _processes(mark)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def _processes(mark: str) -> list[str]:
    wanted = f"{_MARK}={mark}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(f"process {folder.name}: {(folder / 'cmdline').read_bytes()[:80]!r}")
        except OSError:
            continue  # it ended, or is another's
    return found


def _left_in_memory(before: set[str]) -> list[str]:
    """Return shared memory that stays: others on this machine make some for a moment."""
    deadline = time.monotonic() + _GONE_S
    while (found := _shared_memory() - before) and time.monotonic() < deadline:
        time.sleep(0.02)
    return sorted(found)


def _shared_memory() -> set[str]:
    folder = Path("/dev/shm")
    return {f"shared memory {path.name}" for path in folder.iterdir()} if folder.is_dir() else set()


def _stray(runs: Path) -> list[str]:
    """Return files of a run that nobody would expect in it."""
    folder = _lineage(runs)
    known = {"metrics.jsonl", "result.json", "report.md", "checkpoints", ".lock"}
    odd = [path for path in folder.iterdir() if path.name not in known]
    odd += [path for path in folder.glob("checkpoints/*") if not path.name.startswith("step-")]
    return [f"file {path.relative_to(runs)}" for path in odd]


def fresh(folder: Path) -> Path:
    """Return an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
