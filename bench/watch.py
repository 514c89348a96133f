"""What `stoker.watch` costs: its share of the CPU time of epochs over JPEG files.

    python -m bench.watch [--json] [--out FILE] [--rounds N] [--scale F]

Direct accounting, since no comparison of runs could tell 1 % from a machine's drift: what
each kind of metering costs, with caches that a picture went through in between, times how
often it happened in a real run, and the CPU time of the samplers and of getting ready, as
measured in that run. Beside it stands the comparison: each round runs an epoch with and
without a watch, in processes of their own and an order drawn anew, and takes the CPU time of
the whole process tree.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.common import (
    Target,
    cautions,
    command,
    digits,
    interleave,
    median,
    parser,
    publish,
    ratio,
    surroundings,
    verdicts,
)
from bench.metering_costs import cold_ns
from bench.watch_costs import cost_loops
from bench.watch_epoch import BATCH, pictures

# Fewer pairs do not show a difference of one percent.
LEAST_ROUNDS = 20
ROUNDS = 24
EPOCH = 1280
WORKERS = (0, 2)
LIMIT = 0.01
TURNS = 2000


def run(given: argparse.Namespace, repeat: str) -> dict[str, Any]:
    """Measure and return the result, JSON-able."""
    where = surroundings()
    count = max(int(EPOCH * given.scale) // BATCH, 1) * BATCH
    rows: dict[str, Any] = {}
    targets = []
    with tempfile.TemporaryDirectory() as folder:
        pictures(Path(folder))
        costs_ns = {name: cold_ns(loop, TURNS) for name, loop in cost_loops().items()}
        for workers in WORKERS:
            name = f"{workers} workers"
            seconds, shares = _measure(folder, count, workers, given.rounds, costs_ns)
            share = median(shares)
            rows[name] = {
                "share": share.to_dict(),
                "plain_ms_per_sample": digits(1e3 * median(seconds["plain"]).value / count),
                "watched_over_plain": ratio(seconds["watched"], seconds["plain"]).to_dict(),
            }
            targets.append(Target(f"share of the CPU time, {name}", LIMIT, True, share))
    return {
        "what": "share of the CPU time of an epoch over JPEG files that watching takes",
        **where,
        "command": repeat,
        "rounds": given.rounds,
        "samples_per_round": count,
        "cautions": cautions(given, where, LEAST_ROUNDS),
        "cost_us": {name: digits(cost / 1e3) for name, cost in costs_ns.items()},
        "rows": rows,
        "targets": {target.name: target.to_dict() for target in targets},
    }


def _measure(
    folder: str, count: int, workers: int, rounds: int, costs_ns: Mapping[str, float]
) -> tuple[dict[str, list[float]], list[float]]:
    shares: list[float] = []

    def process(kind: str) -> float:
        told = ("-m", "bench.watch_epoch", folder, str(count), str(workers), kind)
        ended = subprocess.run(
            [sys.executable, *told, json.dumps(costs_ns)],
            stdout=subprocess.PIPE,
            check=True,
            cwd=Path(__file__).resolve().parents[1],
        )
        found = json.loads(ended.stdout)
        if found["share"] is not None:
            shares.append(found["share"])
        return float(found["cpu_s"])

    def progress(text: str) -> None:
        print(f"{workers} workers: {text}", file=sys.stderr)

    runs = {kind: partial(process, kind) for kind in ("plain", "watched")}
    return interleave(runs, rounds, lambda: None, progress), shares


def table(result: dict[str, Any]) -> str:
    """Return a result as text."""
    lines = [f"{result['what']}; {result['rounds']} rounds of {result['samples_per_round']}"]
    lines += [f"{name}: {cost:.3g} us" for name, cost in result["cost_us"].items()]
    for name, row in result["rows"].items():
        share, over = row["share"], row["watched_over_plain"]
        lines.append(
            f"{name}: {share['value']:.2%} ({share['low']:.2%} to {share['high']:.2%}) of "
            f"{row['plain_ms_per_sample']:.3g} ms CPU a sample; watched over plain "
            f"{over['value']:.3f} ({over['low']:.3f} to {over['high']:.3f})"
        )
    return "\n".join([*lines, *result["cautions"], *verdicts(result)])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write."""
    options = parser((__doc__ or "").splitlines()[0], ROUNDS)
    given = options.parse_args(arguments)
    result = run(given, command("bench.watch", given, options.parse_args([])))
    return publish(given, result, table)


if __name__ == "__main__":
    sys.exit(main())
