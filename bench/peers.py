"""The photos job, Stoker beside its peers: JPEG files to batches of 224 x 224 pictures.

    python -m bench.peers [--json] [--out FILE] [--rounds N] [--pictures N] [--only NAME,...]
                          [--pictures-from FOLDER] [--quick]

All read the same pictures, crop, resize and flip them at random, and give batches of 64 as
uint8. Peers prepare a picture by one Pillow function or by operators of their own, and those
that take a Python function also by the calls of Stoker's fast path. "limit" is what the cores
give to the same calls without any loader: bare processes that make no batches.

Each runs with as many workers as there are cores, in a new process each round, one after
another, in an order drawn anew; an epoch is timed from asking for it to having its last batch,
after a warm-up epoch. All files are in the page cache. Libraries whose packages fight with
others' get environments of their own (`peers_envs.py`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.common import (
    cautions,
    command,
    digits,
    median,
    parser,
    publish,
    ratio,
    surroundings,
)
from bench.peers_contestants import BY_NAME, CONTESTANTS, LIMITS, NO_FUNCTION, STOKER, Contestant
from bench.peers_job import Job, warm, whole_batches
from bench.peers_measure import Figures, measure, medians
from bench.peers_pictures import CACHE, UnavailableError, described, make_pictures, photographs
from bench.peers_targets import lines, targets
from stoker.measure.host import cores

PICTURES, ROUNDS = 4096, 9
QUICK_PICTURES, QUICK_ROUNDS = 640, 2
VALIDATION = 256
# A core that others took more of than this has no place in a comparison of loaders.
MOST_BY_OTHERS = 0.1


def chosen(only: str) -> list[Contestant]:
    """Return the contestants whose names contain one of the texts, separated by commas.

    Raises:
        SystemExit: a text that no name contains.
    """
    texts = [text.strip() for text in only.split(",") if text.strip()]
    for text in texts:
        if not any(text in contestant.name for contestant in CONTESTANTS):
            names = "; ".join(contestant.name for contestant in CONTESTANTS)
            raise SystemExit(f"--only {text}: no such contestant; there are: {names}")
    return [one for one in CONTESTANTS if not texts or any(text in one.name for text in texts)]


def make_job(
    given: argparse.Namespace, workers: int, tell: Any, cache: Path = CACHE
) -> tuple[Job, dict[str, Any]]:
    """Return the job, its pictures made and in the page cache, and what they are.

    Raises:
        SystemExit: there are no photographs to make them of.
    """
    count, per_shard = whole_batches(round(given.pictures * given.scale), workers)
    try:
        material = photographs(given.pictures_from, tell)
    except UnavailableError as error:
        raise SystemExit(str(error)) from error
    tell(f"{count} pictures, cut from {len(material.sources)} {material.about}")
    made = make_pictures(cache, material, count, VALIDATION, per_shard)
    formats = str(Path(made.files).parents[1] / "formats")
    job = Job(made.files, made.shards, count, formats, workers=workers)
    warm(job)
    return job, {
        "pictures": count,
        "cut_from": f"{len(material.sources)} {made.about}",
        **described([Path(path) for path, _ in job.listed()]),
        "batch_size": job.batch_size,
        "size": job.size,
        "workers": job.workers,
    }


def run(given: argparse.Namespace, repeat: str) -> dict[str, Any]:
    """Measure and return the result, JSON-able."""
    where = surroundings()  # before anything loads the machine
    tell = partial(print, file=sys.stderr)
    job, about = make_job(given, max(1, int(cores())), tell)
    figures, missing = measure(chosen(given.only), job, given.rounds, tell)
    return {
        "what": "the photos job: JPEG files to batches of uint8 pictures",
        **where,
        "command": repeat,
        "rounds": given.rounds,
        **about,
        "cautions": [*cautions(given, where), *disturbed(figures)],
        **compared(figures),
        "targets": {target.name: target.to_dict() for target in targets(figures, missing)},
        "settings": {name: BY_NAME[name].settings for name in figures},
        "contestants_versions": {name: found.versions for name, found in figures.items()},
        "missing": {**missing, "tf.data and DALI with the fast function": NO_FUNCTION},
    }


def compared(figures: Mapping[str, Figures]) -> dict[str, Any]:
    """Return what came out by contestant, and Stoker's ratios to all others, JSON-able."""
    rates = {name: found.pictures_per_s for name, found in figures.items()}
    return {
        "images_per_s": {name: median(values).to_dict() for name, values in rates.items()},
        "ratios": {
            mine: {
                f"{mine} / {other}": ratio(rates[mine], values).to_dict()
                for other, values in rates.items()
                if other != mine
            }
            for mine in STOKER.values()
            if mine in rates
        },
        "cores_used": medians(figures, "cores"),
        "cpu_ms_per_image": medians(figures, "cpu_s_per_picture", 1e3),
        "first_batch_ms": medians(figures, "first_s", 1e3),
        "first_batch_ms_from_opening": medians(figures, "cold_s", 1e3),
        "peak_pss_mib": medians(figures, "pss_bytes", 2.0**-20),
        "mean_value": {
            name: digits(found.mean) for name, found in figures.items() if found.mean is not None
        },
        "cores_taken_by_others": medians(figures, "by_others"),
    }


def disturbed(figures: Mapping[str, Figures]) -> list[str]:
    """Return in how many epochs other work took a core, if it did."""
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
    told = [
        f"{result['what']}; {result['pictures']} of {result['mean_width']} x "
        f"{result['mean_height']} pixels and {result['mean_file_bytes'] / 1e3:.0f} kB on average, "
        f"{result['workers']} workers, {result['rounds']} rounds"
    ]
    width = max((len(name) for name in result["images_per_s"]), default=0)
    told.append(
        f"{'':{width}}  {'images/s':>8}  {'95 %':>14}  {'/ limit':>7}  {'cores':>5}  "
        f"{'first ms':>8}  {'PSS MiB':>7}"
    )
    for name, rate in sorted(result["images_per_s"].items(), key=lambda pair: -pair[1]["value"]):
        ends = f"{rate['low']:.0f} to {rate['high']:.0f}"
        told.append(
            f"{name:{width}}  {rate['value']:8.1f}  {ends:>14}  {_of_limit(name, result):>7}  "
            f"{result['cores_used'][name]:5.2f}  "
            f"{result['first_batch_ms_from_opening'][name]:8.0f}  "
            f"{result['peak_pss_mib'][name]:7.0f}"
        )
    told += [f"missing: {name}: {why}" for name, why in result["missing"].items()]
    return "\n".join([*told, *result["cautions"], *lines(result["targets"])])


def _of_limit(name: str, result: Mapping[str, Any]) -> str:
    """Return a rate over the limit of the same function; "-" for a library's own operators."""
    rates = result["images_per_s"]
    limit = LIMITS.get(BY_NAME[name].how, "")
    return f"{rates[name]['value'] / rates[limit]['value']:.3f}" if limit in rates else "-"


def options() -> argparse.ArgumentParser:
    """Return the parser of this bench's options."""
    made = parser(__doc__.splitlines()[0], ROUNDS)
    made.add_argument("--pictures", type=int, default=PICTURES, metavar="N", help="in an epoch")
    made.add_argument(
        "--only", default="", metavar="NAME,...", help="contestants whose names contain these"
    )
    made.add_argument(
        "--pictures-from",
        type=Path,
        metavar="FOLDER",
        help="photographs to cut pictures from, in place of Debian's wallpapers",
    )
    made.add_argument(
        "--quick",
        action="store_true",
        help=f"{QUICK_PICTURES} pictures and {QUICK_ROUNDS} rounds, where not given",
    )
    return made


def asked(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, str]:
    """Return the options, and the command that repeats the run, without a path."""
    given = options().parse_args(arguments)
    if given.quick:
        given.quick = False
        given.pictures = QUICK_PICTURES if given.pictures == PICTURES else given.pictures
        given.rounds = QUICK_ROUNDS if given.rounds == ROUNDS else given.rounds
    told = argparse.Namespace(**vars(given))
    told.pictures_from = given.pictures_from and "FOLDER"
    told.only = f"'{given.only}'" if " " in given.only else given.only
    return given, command("bench.peers", told, options().parse_args([]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write."""
    given, repeat = asked(arguments)
    chosen(given.only)
    return publish(given, run(given, repeat), table)


if __name__ == "__main__":
    sys.exit(main())
