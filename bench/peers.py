"""The photos job, Stoker beside its peers: JPEG files to batches of 224 x 224 pictures.

    python -m bench.peers [--json] [--out FILE] [--rounds N] [--pictures N] [--only NAME,...]

All prepare pictures by one and the same function, with Pillow; Stoker also runs with the
stages that it ships. All run in one interleaved run, an epoch at a time, each in a process
of its own, with as many workers as there are cores, and a new one after a few rounds: where
its memory happens to lie makes one process up to 7 % slower than another. An epoch is timed
from asking for it to having its last batch, after warm-up epochs; the files are in the page
cache.

"limit" is what the cores give without any loader: bare processes that make no batches.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

if __package__ in (None, ""):  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy
from PIL import Image

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
from bench.peers_contestants import CONTESTANTS, LIMIT, OWN, SHARED, Contestant
from bench.peers_job import Job, make_job
from bench.peers_process import FailedError, Process
from stoker.measure.host import cores

PACKAGES = ("pillow", "torchdata", "spdl", "grain", "webdataset")
PICTURES = 1280
ROUNDS = 9
ROUNDS_A_PROCESS = 3
SETTLE_S = 0.2
# A core that others took more of than this has no place in a comparison of loaders.
MOST_BY_OTHERS = 0.1


# -- measuring -------------------------------------------------------------------------


@dataclass
class Figures:
    """What one contestant's rounds gave, the warm-up left out."""

    cold_s: float
    """From opening it to its first batch, in the warm-up."""
    pss_bytes: int
    """Most memory of all its processes, in the warm-up."""
    pictures_per_s: list[float] = field(default_factory=list)
    cpu_s_per_picture: list[float] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)
    by_others: list[float] = field(default_factory=list)
    """Cores that processes outside it took."""


def chosen(only: str) -> list[Contestant]:
    """Return the contestants whose names contain one of the texts, separated by commas.

    Raises:
        SystemExit: a text that no name contains.
    """
    texts = [text.strip() for text in only.split(",") if text.strip()]
    for text in texts:
        if not any(text in contestant.name for contestant in CONTESTANTS):
            names = ", ".join(contestant.name for contestant in CONTESTANTS)
            raise SystemExit(f"--only {text}: no such contestant; there are: {names}")
    return [one for one in CONTESTANTS if not texts or any(text in one.name for text in texts)]


def measure(
    contestants: Sequence[Contestant], job: Job, rounds: int, progress: Any
) -> tuple[dict[str, Figures], dict[str, str]]:
    """Return the figures of those that can run here, and why others are left out."""
    left_out: dict[str, str] = {}
    figures: dict[str, Figures] = {}
    for contestant in contestants:
        missing = [package for package in contestant.needs if not installed(package)]
        if missing:
            left_out[contestant.name] = f"{' and '.join(missing)} not installed"
    done = 0
    while done < rounds:
        more = min(ROUNDS_A_PROCESS, rounds - done)
        _session(
            [one for one in contestants if one.name not in left_out],
            job,
            more,
            progress,
            figures,
            left_out,
        )
        done += more
    return {name: found for name, found in figures.items() if name not in left_out}, left_out


def _session(
    contestants: Sequence[Contestant],
    job: Job,
    rounds: int,
    progress: Any,
    figures: dict[str, Figures],
    left_out: dict[str, str],
) -> None:
    """Run some rounds with a new process for each, and add to the figures."""
    with ExitStack() as stack:
        processes: dict[str, Process] = {}
        for contestant in contestants:
            progress(f"opening {contestant.name}")
            try:
                process = stack.enter_context(Process(contestant.name, job))
                warm = process.warm_up()
            except FailedError as error:
                if not contestant.peer:
                    raise
                left_out[contestant.name] = str(error)
                continue
            figures.setdefault(contestant.name, Figures(*warm))
            processes[contestant.name] = process
        runs = {name: process.epoch for name, process in processes.items()}
        told = interleave(runs, rounds, partial(time.sleep, SETTLE_S), progress)
    for name, epochs in told.items():
        found = figures[name]
        found.pictures_per_s += [epoch.pictures / epoch.seconds for epoch in epochs]
        found.cpu_s_per_picture += [epoch.cpu_s / epoch.pictures for epoch in epochs]
        found.first_s += [epoch.first_s for epoch in epochs]
        found.by_others += [epoch.by_others for epoch in epochs]


# -- what came out ---------------------------------------------------------------------


@dataclass(frozen=True)
class Level(Target):
    """A ratio that is to reach 1 within its interval: level, or ahead."""

    @property
    def met(self) -> bool:
        """Whether the interval reaches the limit."""
        return self.figure is not None and self.figure.high >= self.limit


def best_peer(figures: Mapping[str, Figures]) -> str | None:
    """Return the fastest of the other libraries' loaders, by its median, or None without any."""
    peers = [one.name for one in CONTESTANTS if one.peer and one.name in figures]
    rate = {name: float(numpy.median(figures[name].pictures_per_s)) for name in peers}
    return max(rate, key=rate.__getitem__) if rate else None


def targets(figures: Mapping[str, Figures], left_out: Mapping[str, str]) -> list[Target]:
    """Return what Stoker is held to."""
    best = best_peer(figures)

    def against(other: str | None) -> tuple[Interval | None, str]:
        for name in (SHARED, other or ""):
            if name not in figures:
                return None, left_out.get(name, "not measured")
        return ratio(figures[SHARED].pictures_per_s, figures[other or ""].pictures_per_s), ""

    return [
        Target(f"{SHARED} over {LIMIT}", 0.93, False, *against(LIMIT)),
        Level(
            f"{SHARED} over the best peer ({best or 'none'}), interval reaching 1",
            1.0,
            False,
            *against(best),
        ),
    ]


def run(given: argparse.Namespace, repeat: str) -> dict[str, Any]:
    """Measure and return the result, JSON-able."""
    where = surroundings(PACKAGES)  # before anything loads the machine
    progress = partial(print, file=sys.stderr)
    workers = max(1, int(cores()))
    with tempfile.TemporaryDirectory() as folder:
        progress("making pictures")
        job = make_job(Path(folder), round(given.pictures * given.scale), workers)
        about = _about(job)
        figures, left_out = measure(chosen(given.only), job, given.rounds, progress)
    rates = {name: found.pictures_per_s for name, found in figures.items()}
    return {
        "what": "the photos job: JPEG files to batches of uint8 pictures",
        **where,
        "command": repeat,
        "rounds": given.rounds,
        **about,
        "cautions": [*cautions(given, where), *_disturbed(figures)],
        "images_per_s": {name: median(values).to_dict() for name, values in rates.items()},
        "ratios": {
            mine: {
                f"{mine} / {other}": ratio(rates[mine], values).to_dict()
                for other, values in rates.items()
                if other != mine
            }
            for mine in (SHARED, OWN)
            if mine in rates
        },
        "cpu_ms_per_image": _medians(figures, "cpu_s_per_picture", 1e3),
        "first_batch_ms": _medians(figures, "first_s", 1e3),
        "first_batch_ms_from_opening": {
            name: digits(found.cold_s * 1e3) for name, found in figures.items()
        },
        "peak_pss_mib": {name: digits(found.pss_bytes / 2**20) for name, found in figures.items()},
        "cores_taken_by_others": _medians(figures, "by_others", 1.0),
        "targets": {target.name: target.to_dict() for target in targets(figures, left_out)},
        "settings": {one.name: one.settings for one in CONTESTANTS if one.name in figures},
        "left_out": left_out,
    }


def _about(job: Job) -> dict[str, Any]:
    files = [Path(path) for path, _ in job.listed()]
    sizes = []
    for path in files:
        with Image.open(path) as picture:
            sizes.append(picture.size)
    return {
        "pictures": job.pictures,
        "batch_size": job.batch_size,
        "size": job.size,
        "workers": job.workers,
        "mean_file_bytes": round(mean(path.stat().st_size for path in files)),
        "mean_width": round(mean(width for width, _ in sizes)),
        "mean_height": round(mean(height for _, height in sizes)),
    }


def _medians(figures: Mapping[str, Figures], what: str, scale: float) -> dict[str, float]:
    return {
        name: digits(float(numpy.median(getattr(found, what))) * scale, 3)
        for name, found in figures.items()
    }


def _disturbed(figures: Mapping[str, Figures]) -> list[str]:
    taken = [value for found in figures.values() for value in found.by_others]
    often = sum(value > MOST_BY_OTHERS for value in taken)
    if not often:
        return []
    return [
        f"in {often} of {len(taken)} epochs other processes took more than {MOST_BY_OTHERS:g} of "
        f"a core (most: {max(taken):.2f})"
    ]


def table(result: Mapping[str, Any]) -> str:
    """Return a result as text."""
    lines = [
        f"{result['what']}; {result['pictures']} of {result['mean_width']} x "
        f"{result['mean_height']} pixels and {result['mean_file_bytes'] / 1e3:.0f} kB on average, "
        f"{result['workers']} workers, {result['rounds']} rounds"
    ]
    width = max(map(len, result["images_per_s"]))
    lines.append(
        f"{'':{width}}  {'images/s':>8}  {'95 %':>14}  {'/ limit':>7}  {'CPU ms':>6}  "
        f"{'first ms':>8}  {'PSS MiB':>7}"
    )
    most = result["images_per_s"].get(LIMIT, {}).get("value")
    for name, rate in sorted(result["images_per_s"].items(), key=lambda pair: -pair[1]["value"]):
        ends = f"{rate['low']:.0f} to {rate['high']:.0f}"
        share = f"{rate['value'] / most:7.3f}" if most else f"{'-':>7}"
        lines.append(
            f"{name:{width}}  {rate['value']:8.1f}  {ends:>14}  {share}  "
            f"{result['cpu_ms_per_image'][name]:6.2f}  {result['first_batch_ms'][name]:8.0f}  "
            f"{result['peak_pss_mib'][name]:7.0f}"
        )
    lines += [f"left out: {name}: {why}" for name, why in result["left_out"].items()]
    return "\n".join([*lines, *result["cautions"], *verdicts(result)])


def options() -> argparse.ArgumentParser:
    """Return the parser of this bench's options."""
    made = parser(__doc__.splitlines()[0], ROUNDS)
    made.add_argument("--pictures", type=int, default=PICTURES, metavar="N", help="in an epoch")
    made.add_argument(
        "--only", default="", metavar="NAME,...", help="contestants whose names contain these"
    )
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write."""
    given = options().parse_args(arguments)
    chosen(given.only)
    result = run(given, command("bench.peers", given, options().parse_args([])))
    return publish(given, result, table)


if __name__ == "__main__":
    sys.exit(main())
