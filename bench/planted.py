"""Planted bottlenecks, for real: does `stoker analyze` name stage, resource and gain?

    python -m bench.planted [--json] [--out FILE] [--rounds N] [--scale F]

Each case is a pipeline whose answer is known, in sizes that vary with the round. The same
cases run in virtual time in tests/planted; these show that the real counters feed the
verdicts as the simulated ones do. Each takes about ten seconds a round; nothing else
should run beside them, since "outside" is one of the answers.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.common import Interval, Target, cautions, command, parser, publish, surroundings
from bench.common import verdicts as target_lines
from bench.planted_stages import HashingDecode, PythonAugment, SleepingAugment, SleepingDecode
from stoker import Pipeline
from stoker.analyze.block import LINES, block
from stoker.analyze.session import analyze
from stoker.measure.host import cores
from stoker.run.versions import versions
from stoker_plugins import collate, read, step

ROUNDS, SECONDS = 2, 9.0
RIGHT_SHARE = 0.95
"""Of the verdicts, at least."""


@dataclass(frozen=True)
class Case:
    """A pipeline with its answer."""

    name: str
    make: Callable[[random.Random], Pipeline]
    verdict: str
    stage: str | None
    resource: str
    ceiling: tuple[float, float] = (1.0, float("inf"))
    """Where the ceiling has to lie."""
    hogs: bool = False
    """Other processes burn all cores meanwhile."""


def job(name: str, *stages: Any, step_ms: float = 1.0) -> Pipeline:
    """Return a pipeline of these stages around a cheap source and a step on a device."""
    source = read.Synthetic(1_000_000, shape=(8, 8, 3))
    return Pipeline(name, source, *stages, collate.List(8), step.Timed(step_ms))


def near(draw: random.Random, value: float) -> float:
    """Return a value up to a quarter off."""
    return value * draw.uniform(0.75, 1.25)


def cases() -> list[Case]:
    """Return all cases."""
    count = max(int(cores()), 1)

    def alike(draw: random.Random) -> Pipeline:
        scale = draw.uniform(0.8, 1.2)
        # Different worker counts keep them in segments of their own.
        return job(
            "tie",
            SleepingDecode(10.0 * scale, num_workers=1),
            SleepingAugment(19.6 * scale, num_workers=2),
        )

    def together(draw: random.Random) -> Pipeline:
        scale = draw.uniform(0.8, 1.2)
        stages = (SleepingDecode(10.0 * scale, num_workers=2), SleepingAugment(9.8 * scale))
        return job("together", *stages)

    return [
        Case(
            "a decoder that sleeps, one worker",
            lambda draw: job("sleep", SleepingDecode(near(draw, 20), num_workers=1)),
            "bottleneck",
            "planted.sleeping_decode",
            "wait",
            (5.0, float("inf")),
        ),
        Case(
            "a decoder that fills all cores",
            lambda draw: job("cores", HashingDecode(int(near(draw, 4000)), num_workers=count)),
            "bottleneck",
            "planted.hashing_decode",
            "cores",
        ),
        Case(
            "an augment in Python, two threads",
            lambda draw: job("gil", PythonAugment(int(near(draw, 100_000)), num_workers=2)),
            "bottleneck",
            "planted.python_augment",
            "gil",
        ),
        Case(
            "a step that nothing else reaches",
            lambda draw: job("device", SleepingDecode(1.0), step_ms=near(draw, 50)),
            "do nothing",
            "step.timed",
            "device",
            (1.5, float("inf")),
        ),
        Case("two alike, each with workers of its own", alike, "tie", "planted.sleeping_decode",
             "wait", (1.0, 1.08)),
        Case("the same two sharing workers", together, "bottleneck", "planted.sleeping_decode",
             "wait", (1.85, 2.2)),
        Case(
            "other processes on the cores",
            lambda draw: job("outside", HashingDecode(int(near(draw, 4000)), num_workers=count)),
            "bottleneck",
            "planted.hashing_decode",
            "outside",
            hogs=True,
        ),
    ]  # fmt: skip


def run_case(case: Case, seed: int, seconds: float) -> dict[str, Any]:
    """Return what an analysis said of a case, and whether it was right."""
    pipeline = case.make(random.Random(f"{case.name} {seed}"))
    if case.hogs:
        with outside_hogs(max(int(cores()), 1)):
            found = analyze(pipeline, seconds)
    else:
        found = analyze(pipeline, seconds)
    diagnosis = found.diagnosis
    text = block(diagnosis, found.evidence, found.whole, versions(), "stoker analyze planted")
    lines = text.splitlines()
    low, high = case.ceiling
    checks = {
        "verdict": diagnosis.verdict == case.verdict,
        "stage": diagnosis.stage == case.stage,
        "resource": diagnosis.resource == case.resource,
        "ceiling": low <= diagnosis.ceiling.value <= high,
        "block": len(lines) <= LINES and max(map(len, lines)) <= 80,
    }
    return {
        "case": case.name,
        "round": seed,
        "right": all(checks.values()),
        "wrong": [name for name, fine in checks.items() if not fine],
        "said": f"{diagnosis.verdict}: {diagnosis.stage} by {diagnosis.resource}",
        "headline": diagnosis.headline,
        "ceiling": round(diagnosis.ceiling.value, 3),
        "evidence": list(diagnosis.evidence),
    }


@contextmanager
def outside_hogs(count: int) -> Iterator[None]:
    """Burn cores in processes that are no children of ours, so that they count as others'."""
    code = (
        "import subprocess, sys\n"
        "hog = [sys.executable, '-c', 'import time\\nend = time.time() + 120\\n'\n"
        "       'while time.time() < end: pass']\n"
        "null = subprocess.DEVNULL\n"  # else they would hold our pipe open
        "start = lambda: subprocess.Popen(hog, stdout=null, stderr=null, start_new_session=True)\n"
        f"print(*[start().pid for _ in range({count})])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    try:
        yield
    finally:
        for pid in done.stdout.split():
            os.kill(int(pid), signal.SIGKILL)


def run(given: argparse.Namespace, how: str) -> dict[str, Any]:
    """Run all cases in all rounds."""
    where = surroundings()
    results = []
    for seed in range(given.rounds):
        for case in cases():
            results.append(run_case(case, seed, SECONDS * given.scale))
            one = results[-1]
            mark = "right" if one["right"] else f"WRONG ({', '.join(one['wrong'])})"
            print(f"{mark:6} {case.name}: {one['said']}, {one['ceiling']}x", file=sys.stderr)
    share = sum(one["right"] for one in results) / len(results)
    target = Target(
        "verdicts that are right, share", RIGHT_SHARE, False, Interval(share, share, share)
    )
    return {
        "what": "planted bottlenecks, for real",
        **where,
        "command": how,
        "rounds": given.rounds,
        "cautions": cautions(given, where, ROUNDS),
        "cases": results,
        "targets": {target.name: target.to_dict()},
    }


def table(result: Mapping[str, Any]) -> str:
    """Return a result as text."""
    lines = [f"{result['what']}; {result['rounds']} rounds"]
    for one in result["cases"]:
        mark = "right" if one["right"] else "WRONG"
        lines.append(f"{mark}  {one['case']}: {one['headline']}")
    return "\n".join([*lines, *result["cautions"], *target_lines(result)])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print and write."""
    options = parser((__doc__ or "").splitlines()[0], ROUNDS)
    given = options.parse_args(arguments)
    result = run(given, command("bench.planted", given, options.parse_args([])))
    return publish(given, result, table)


if __name__ == "__main__":
    sys.exit(main())
