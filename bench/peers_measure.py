"""Rounds of `bench.peers`: each contestant once a round, in a new process, in a drawn order.

Where a process's memory happens to lie makes it up to 7 % slower than another, and one that
waits holds memory and may keep threads busy: so each round opens, warms up, times and ends one
contestant after another. Round by round they are pairs.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from bench.common import SEED, digits, installed
from bench.peers_contestants import Contestant
from bench.peers_envs import MissingError, python_of
from bench.peers_job import Job, prepared, read
from bench.peers_process import FailedError, Process, prepare

SETTLE_S = 0.2
# Contestants that draw the same way agree on the mean of their values; of few pictures less so.
_MEAN_OFF, _MEAN_OF = 5.0, 1024
_LOOKED_AT = 2048


@dataclass
class Figures:
    """What one contestant's rounds gave, a value a round."""

    pictures_per_s: list[float] = field(default_factory=list)
    cores: list[float] = field(default_factory=list)
    """CPU time over wall time."""
    cpu_s_per_picture: list[float] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)
    """From asking for the timed epoch to its first batch."""
    cold_s: list[float] = field(default_factory=list)
    """From opening it to its first batch, in the warm-up."""
    pss_bytes: list[float] = field(default_factory=list)
    """Most memory of all its processes, from their start to the end of the warm-up."""
    by_others: list[float] = field(default_factory=list)
    """Cores that processes outside it took."""
    mean: float | None = None
    """Of all values in the first warm-up; None where there are no batches."""
    versions: dict[str, str] = field(default_factory=dict)


def measure(
    contestants: Sequence[Contestant], job: Job, rounds: int, tell: Callable[[str], object]
) -> tuple[dict[str, Figures], dict[str, str]]:
    """Return the figures of those that can run here, and why others are missing.

    Raises:
        FailedError: one that is no other library's failed.
    """
    pythons, missing = interpreters(contestants, job, tell)
    usual = usual_mean(job)
    figures: dict[str, Figures] = {}
    order = [one for one in contestants if one.name in pythons]
    shuffle = random.Random(SEED).shuffle
    for number in range(rounds):
        shuffle(order)
        for at, one in enumerate(order):
            if one.name in missing:
                continue
            tell(f"round {number + 1} of {rounds}, {at + 1} of {len(order)}: {one.name}")
            time.sleep(SETTLE_S)
            try:
                found = figures.setdefault(one.name, Figures())
                _round(one, job, pythons[one.name], found, usual)
            except FailedError as error:
                if not one.peer:
                    raise
                missing[one.name] = str(error)
    return {name: found for name, found in figures.items() if name not in missing}, missing


def interpreters(
    contestants: Sequence[Contestant], job: Job, tell: Callable[[str], object]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return by name each contestant's Python, where its data is written, or why it is missing."""
    pythons: dict[str, str] = {}
    missing: dict[str, str] = {}
    for one in contestants:
        lacking = [] if one.environment else [name for name in one.needs if not installed(name)]
        if lacking:
            missing[one.name] = f"{' and '.join(lacking)} not installed"
            continue
        try:
            if one.environment:
                tell(f"environment {one.environment}, of {one.name}")
            python = python_of(one.environment)
            if one.preparer:
                prepare(one.name, job, python)
        except (MissingError, FailedError) as error:
            missing[one.name] = str(error)
        else:
            pythons[one.name] = python
    return pythons, missing


def _round(one: Contestant, job: Job, python: str, found: Figures, usual: float) -> None:
    with Process(one.name, job, python) as process:
        warm, told = process.warm_up(), process.epoch()
    if warm.mean is not None and abs(warm.mean - usual) > allowed_off(job.pictures):
        raise FailedError(
            f"{one.name} gives other pictures: their mean is {warm.mean:.1f}, not {usual:.1f}"
        )
    found.mean = warm.mean if found.mean is None else found.mean
    found.versions = warm.versions
    found.cold_s.append(warm.cold_s)
    found.pss_bytes.append(float(warm.pss_bytes))
    found.pictures_per_s.append(told.pictures / told.seconds)
    found.cores.append(told.cpu_s / told.seconds)
    found.cpu_s_per_picture.append(told.cpu_s / told.pictures)
    found.first_s.append(told.first_s)
    found.by_others.append(told.by_others)


def usual_mean(job: Job) -> float:
    """Return the mean of all values after the job, by the Pillow function."""
    files = job.listed()
    draw = random.Random(SEED)
    chosen = files if len(files) <= _LOOKED_AT else draw.sample(files, _LOOKED_AT)
    means = [float(prepared(read(path), draw, job.size).mean()) for path, _ in chosen]
    return float(numpy.mean(means))


def allowed_off(pictures: int) -> float:
    """Return by how much means of that many pictures may differ, in grey values."""
    return _MEAN_OFF * max(1.0, math.sqrt(_MEAN_OF / pictures))


def medians(figures: Mapping[str, Figures], what: str, scale: float = 1.0) -> dict[str, Any]:
    """Return by name the median of one of the figures, to three digits."""
    return {
        name: digits(float(numpy.median(getattr(found, what))) * scale, 3)
        for name, found in figures.items()
    }
