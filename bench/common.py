"""What all benches share: interleaved rounds, intervals, targets, results that can be published."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import numpy

from stoker.run.versions import versions

Told = TypeVar("Told")

RESULTS = Path(__file__).resolve().parent / "results"
SEED = 17
RESAMPLES = 4000
# A median of fewer rounds says little, and neither does its interval.
MIN_ROUNDS = 7

# "/home/x", "~/x", "C:\x" at the start of a word: names of places on the machine.
_PATH = re.compile(r"(?:^|[\s'\"=(\[])(?:/|~/|[A-Za-z]:\\)\w")


# -- statistics ----------------------------------------------------------------------


@dataclass(frozen=True)
class Interval:
    """A median and its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float]:
        """Return it, JSON-able, to four digits."""
        return {"value": digits(self.value), "low": digits(self.low), "high": digits(self.high)}


def median(values: Sequence[float]) -> Interval:
    """Return the median over rounds, with the percentile bootstrap of Efron (1979).

    The seed is fixed: the same values give the same interval.

    Raises:
        ValueError: no values.
    """
    if not len(values):
        raise ValueError("a median of no values was asked for; measure at least one round")
    array = numpy.asarray(values, float)
    rng = numpy.random.default_rng(SEED)
    drawn = array[rng.integers(0, len(array), (RESAMPLES, len(array)))]
    low, high = numpy.percentile(numpy.median(drawn, axis=1), (2.5, 97.5))
    return Interval(float(numpy.median(array)), float(low), float(high))


def ratio(above: Sequence[float], below: Sequence[float]) -> Interval:
    """Return the median of the ratios of each round, which drift of the machine leaves alone.

    Raises:
        ValueError: the two do not have one value for each round.
    """
    if len(above) != len(below):
        raise ValueError(f"ratios need pairs: {len(above)} rounds over {len(below)} rounds")
    return median([one / other for one, other in zip(above, below, strict=True)])


def digits(value: float, count: int = 4) -> float:
    """Return a value rounded to some significant digits."""
    return float(f"{value:.{count}g}")


# -- targets -------------------------------------------------------------------------


@dataclass(frozen=True)
class Target:
    """A bound on a figure, held to the worse end of the figure's interval."""

    name: str
    limit: float
    at_most: bool
    figure: Interval | None
    """None where it could not be measured."""
    why: str = ""
    """Why it could not be."""

    @property
    def met(self) -> bool:
        """Whether the whole interval keeps the bound. What was not measured does not."""
        if self.figure is None:
            return False
        if self.at_most:
            return self.figure.high <= self.limit
        return self.figure.low >= self.limit

    def to_dict(self) -> dict[str, Any]:
        """Return it, JSON-able."""
        figure = self.figure.to_dict() if self.figure else {"value": None, "why": self.why}
        return {**figure, "at_most" if self.at_most else "at_least": self.limit, "met": self.met}


def verdicts(result: Mapping[str, Any]) -> list[str]:
    """Return one line for each target of a result, as `Target.to_dict` wrote it."""
    lines = []
    for name, target in result["targets"].items():
        bound = "at_most" if "at_most" in target else "at_least"
        limit = f"{bound.replace('_', ' ')} {target[bound]:g}"
        if target["value"] is None:
            lines.append(f"not measured  {name}, {limit}: {target['why']}")
            continue
        figure = f"{target['value']:.3g} ({target['low']:.3g} to {target['high']:.3g})"
        lines.append(f"{'met' if target['met'] else 'MISSED':12}  {name}: {figure}, {limit}")
    return lines


def all_met(result: Mapping[str, Any]) -> bool:
    """Whether every target of a result is met."""
    return all(target["met"] for target in result["targets"].values())


# -- rounds --------------------------------------------------------------------------


def interleave(
    contestants: Mapping[str, Callable[[], Told]],
    rounds: int,
    before_each: Callable[[], object],
    progress: Callable[[str], object] = lambda text: None,
) -> dict[str, list[Told]]:
    """Return each contestant's figures, one a round, after a warm-up round.

    Every round runs all contestants, in an order shuffled anew, so that a drift of the
    machine falls on all alike.

    Args:
        contestants: by name, what runs once and returns its figure.
        rounds: that count.
        before_each: called before each run, so that none pays for another's leavings.
        progress: told when a round begins.
    """
    shuffle = random.Random(SEED).shuffle
    order = list(contestants)
    figures: dict[str, list[Told]] = {name: [] for name in order}
    for number in range(rounds + 1):
        progress(f"round {number} of {rounds}" if number else "warm-up round")
        shuffle(order)
        for name in order:
            before_each()
            figure = contestants[name]()
            if number:
                figures[name].append(figure)
    return figures


# -- where it was measured -----------------------------------------------------------


def installed(package: str) -> bool:
    """Whether a package can be imported, without importing it."""
    return importlib.util.find_spec(package) is not None


def surroundings(packages: Sequence[str] = ()) -> dict[str, Any]:
    """Return machine, cores, load and versions, with those of some more packages if installed."""
    found = versions()
    machine = {"machine": found.pop("machine"), "cores": found.pop("cores")}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {**machine, "load_average": digits(os.getloadavg()[0], 2), "versions": found}


def command(module: str, given: argparse.Namespace, defaults: argparse.Namespace) -> str:
    """Return the command that repeats a measurement: options that only say where to write left out.

    Args:
        module: as `python -m` takes it.
        given: the options of this run.
        defaults: the options of a run without any.
    """
    parts = ["python -m", module]
    for name, value in vars(given).items():
        if name not in ("json", "out") and value != getattr(defaults, name):
            parts.append(f"--{name.replace('_', '-')} {value}")
    return " ".join(parts)


# -- results -------------------------------------------------------------------------


def write(path: Path, result: Mapping[str, Any]) -> None:
    """Write a result as JSON, whole or not at all.

    Raises:
        ValueError: it names places on this machine, which a published result must not.
    """
    private = [text for text in _texts(result) if _PATH.search(text)]
    if private:
        raise ValueError(f"a result must not name paths of the machine: {private[0]!r}")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_text(as_json(result) + "\n")
    part.replace(path)


def publish(
    given: argparse.Namespace, result: dict[str, Any], table: Callable[[dict[str, Any]], str]
) -> int:
    """Write a result where it was asked for, print it, and return the exit code.

    Args:
        given: the options of this run: `out` and `json`.
        result: JSON-able.
        table: makes text of it.
    """
    if given.out:
        write(given.out, result)
    print(as_json(result) if given.json else table(result))
    return 0


def as_json(result: Mapping[str, Any]) -> str:
    """Return a result as JSON text."""
    return json.dumps(result, indent=1, allow_nan=False, ensure_ascii=False)


def _texts(tree: Any) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _texts(key)
            yield from _texts(value)
    elif isinstance(tree, (list, tuple)):
        for value in tree:
            yield from _texts(value)


# -- command lines -------------------------------------------------------------------


def parser(about: str, rounds: int) -> argparse.ArgumentParser:
    """Return a parser with the options that every bench takes."""
    made = argparse.ArgumentParser(description=about)
    made.add_argument("--json", action="store_true", help="print the result as one JSON object")
    made.add_argument("--out", type=Path, metavar="FILE", help="write the result to FILE too")
    made.add_argument(
        "--rounds",
        type=_positive(int),
        default=rounds,
        metavar="N",
        help="rounds that count",
    )
    made.add_argument(
        "--scale",
        type=_positive(float),
        default=1.0,
        metavar="F",
        help="length of a round, as a multiple",
    )
    return made


def _positive(kind: type[int] | type[float]) -> Callable[[str], float]:
    def number(text: str) -> float:
        value = kind(text)
        if value <= 0:
            raise argparse.ArgumentTypeError(f"{text}: give a number above 0")
        return value

    return number


def cautions(
    given: argparse.Namespace, where: Mapping[str, Any], least_rounds: int = MIN_ROUNDS
) -> list[str]:
    """Return why the figures of this run are not to be relied on, if so.

    Args:
        given: the options of this run.
        where: its surroundings.
        least_rounds: that a figure needs.
    """
    found = []
    if given.rounds < least_rounds:
        found.append(f"{given.rounds} rounds: {least_rounds} or more are needed for a figure")
    if given.scale < 1:
        found.append(f"rounds of {given.scale:g} times their length")
    load, cores = where["load_average"], where["cores"]
    if load > cores / 2:
        found.append(f"other work ran beside it: load average {load:g} on {cores:g} cores")
    return found
