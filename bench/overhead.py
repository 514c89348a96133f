"""Engine overhead per item: four no-op map stages over integers, beside Stoker's peers.

    python -m bench.overhead [--json] [--out FILE] [--rounds N] [--scale F]

All contestants run in one interleaved run. The clock runs from the first item received to
the last: what a library takes to start and to stop is not counted. Stoker's stages are
metered as always, and its source makes a sample (a dict with its key) of every integer.
"""

from __future__ import annotations

import argparse
import gc
import logging
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.common import (
    Interval,
    Target,
    cautions,
    command,
    digits,
    installed,
    interleave,
    median,
    parser,
    publish,
    ratio,
    surroundings,
    verdicts,
)
from bench.contestants import CONTESTANTS, Contestant

INLINE, THREADS = "stoker inline", "stoker threads"
PACKAGES = ("torchdata", "spdl", "grain")
ROUND_S = 0.3
ROUNDS = 11

Seconds = dict[str, list[float]]
"""Each contestant's seconds per item, one a round."""


# -- measuring -----------------------------------------------------------------------


def seconds_per_item(contestant: Contestant, n: int) -> float:
    """Return how long one of n items takes, from the first one received to the last."""
    with contestant.open(n) as items:
        received = iter(items)
        next(received)
        begun = time.perf_counter()
        for _ in islice(received, n - 1):
            pass
        spent = time.perf_counter() - begun
        for _ in received:
            raise RuntimeError(f"{contestant.name} gave more than the {n} items asked for")
        return spent / (n - 1)


def check(contestant: Contestant, n: int = 300) -> None:
    """Make sure that a contestant gives all items, in order.

    Raises:
        RuntimeError: it does not, so its time means nothing.
    """
    with contestant.open(n) as items:
        got = [item["data"] if isinstance(item, dict) else item for item in items]
    if got != list(range(n)):
        raise RuntimeError(f"{contestant.name} does not give all items in order: {got[:5]} ...")


def items_for(contestant: Contestant, round_s: float) -> int:
    """Return how many items take about as long as a round."""
    n = contestant.least
    while True:
        each_s = seconds_per_item(contestant, n)
        if each_s * n >= round_s / 4:
            return max(contestant.least, int(round_s / each_s))
        n *= 4


def settle(threads: int) -> None:
    """Let the last contestant's threads end and its garbage go, before the next one runs.

    Args:
        threads: that ran before any contestant did.
    """
    gc.collect()
    deadline = time.monotonic() + 2.0
    while threading.active_count() > threads and time.monotonic() < deadline:
        time.sleep(0.001)


def present(contestants: Iterable[Contestant]) -> tuple[list[Contestant], dict[str, str]]:
    """Return the contestants that can run here, and why others are left out."""
    there, left_out = [], {}
    for contestant in contestants:
        missing = [package for package in contestant.needs if not installed(package)]
        if missing:
            left_out[contestant.name] = f"{' and '.join(missing)} not installed"
        else:
            there.append(contestant)
    return there, left_out


def measure(
    contestants: Sequence[Contestant],
    rounds: int,
    round_s: float,
    progress: Any = lambda text: None,
) -> tuple[Seconds, dict[str, int]]:
    """Return each contestant's seconds per item by round, and how many items a round had."""
    threads = threading.active_count()
    counts = {}
    for contestant in contestants:
        progress(f"sizing {contestant.name}")
        check(contestant)
        counts[contestant.name] = items_for(contestant, round_s)
        settle(threads)
    runs = {
        contestant.name: partial(seconds_per_item, contestant, counts[contestant.name])
        for contestant in contestants
    }
    return interleave(runs, rounds, partial(settle, threads), progress), counts


# -- what came out -------------------------------------------------------------------


def targets(seconds: Seconds, left_out: dict[str, str]) -> list[Target]:
    """Return what the engine is held to."""

    def each(name: str, limit_us: float) -> Target:
        figure = median([value * 1e6 for value in seconds[name]])
        return Target(f"{name}, us per item", limit_us, True, figure)

    def times(name: str, peer: str, limit: float) -> Target:
        title = f"{name}, times as fast as {peer}"
        if peer not in seconds:
            return Target(title, limit, False, None, left_out.get(peer, "not measured"))
        return Target(title, limit, False, ratio(seconds[peer], seconds[name]))

    return [
        each(INLINE, 2.5),
        times(INLINE, "torchdata.nodes Mapper", 1.0),
        each(THREADS, 10.0),
        times(THREADS, "torchdata.nodes ParallelMapper", 20.0),
        times(THREADS, "spdl", 100.0),
    ]


def run(given: argparse.Namespace, repeat: str) -> dict[str, Any]:
    """Measure and return the result, JSON-able."""
    where = surroundings(PACKAGES)  # before anything loads the machine
    there, left_out = present(CONTESTANTS)
    round_s = ROUND_S * given.scale
    seconds, counts = measure(there, given.rounds, round_s, partial(print, file=sys.stderr))
    us = {name: median([value * 1e6 for value in values]) for name, values in seconds.items()}
    return {
        "what": "engine overhead per item: four no-op map stages over integers",
        **where,
        "command": repeat,
        "rounds": given.rounds,
        "round_s": digits(round_s),
        "cautions": cautions(given, where),
        "items_per_s": {name: digits(1e6 / figure.value) for name, figure in us.items()},
        "us_per_item": {name: digits(figure.value) for name, figure in us.items()},
        "us_per_item_interval": {name: _ends(figure) for name, figure in us.items()},
        "ratios": {
            mine: {
                f"{peer} / {mine}": ratio(seconds[peer], seconds[mine]).to_dict()
                for peer in seconds
                if peer != mine
            }
            for mine in (INLINE, THREADS)
        },
        "targets": {target.name: target.to_dict() for target in targets(seconds, left_out)},
        "settings": {contestant.name: contestant.settings for contestant in there},
        "items_per_round": counts,
        "left_out": left_out,
    }


def _ends(figure: Interval) -> list[float]:
    return [digits(figure.low), digits(figure.high)]


def table(result: dict[str, Any]) -> str:
    """Return a result as text."""
    lines = [f"{result['what']}; {result['rounds']} rounds of {result['round_s']:g} s"]
    width = max(map(len, result["us_per_item"]))
    head = f"{'':{width}}  {'us/item':>8}  {'95 %':>15}  {'/ inline':>9}  {'/ threads':>9}"
    lines.append(head)
    for name, value in sorted(result["us_per_item"].items(), key=lambda pair: pair[1]):
        low, high = result["us_per_item_interval"][name]
        over = [
            result["ratios"][mine].get(f"{name} / {mine}", {"value": 1.0})["value"]
            for mine in (INLINE, THREADS)
        ]
        ends = f"{low:.3g} to {high:.3g}"
        lines.append(f"{name:{width}}  {value:8.3g}  {ends:>15}  {over[0]:9.3g}  {over[1]:9.3g}")
    lines += [f"left out: {name}: {why}" for name, why in result["left_out"].items()]
    return "\n".join([*lines, *result["cautions"], *verdicts(result)])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write."""
    options = parser((__doc__ or "").splitlines()[0], ROUNDS)
    given = options.parse_args(arguments)
    logging.getLogger("absl").setLevel(logging.ERROR)  # grain misses an optional profiler
    result = run(given, command("bench.overhead", given, options.parse_args([])))
    return publish(given, result, table)


if __name__ == "__main__":
    sys.exit(main())
