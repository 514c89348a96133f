"""The fault suite for real: kills, stops, interrupts and limits, as often as it takes.

    python -m bench.faults [--json] [--out FILE]

Runs tests/faults at its full length: 50 SIGKILLs of a whole training job at random moments,
each gone on with; 20 rounds of each way to end a loader; killed, stopped and crashing
workers; 50 examples of exact resume with process workers. A target is a test, and its figure
the number of its failures.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

if __package__ in (None, ""):  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.common import Interval, Target, publish, surroundings, verdicts

ROOT = Path(__file__).resolve().parents[1]


def suite(folder: Path, long: bool) -> ElementTree.Element:
    """Run the fault suite and return its report, in JUnit's format.

    Raises:
        RuntimeError: it could not be run.
    """
    report = folder / "report.xml"
    environment = {**os.environ, "STOKER_PROVE": "1" if long else "0"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/faults", "-p", "no:cacheprovider",
         "-o", "junit_family=xunit1", f"--junitxml={report}"],
        cwd=ROOT,
        env=environment,
        stdout=sys.stderr,
    )  # fmt: skip
    if not report.exists():
        raise RuntimeError(f"the fault suite ended with {done.returncode}, and told nothing")
    return ElementTree.parse(report).getroot()


def outcomes(report: ElementTree.Element) -> list[dict[str, Any]]:
    """Return each test with what became of it and the figures that it noted."""
    found = []
    for case in report.iter("testcase"):
        said = case.find("failure") if case.find("failure") is not None else case.find("error")
        skipped = case.find("skipped")
        noted = case.iter("property")
        found.append(
            {
                "test": f"{case.get('classname', '').rpartition('.')[2]}: {case.get('name')}",
                "failed": said is not None,
                "skipped": None if skipped is None else skipped.get("message"),
                "seconds": round(float(case.get("time", 0.0)), 1),
                "figures": {str(each.get("name")): each.get("value") for each in noted},
            }
        )
    return found


def run(given: argparse.Namespace) -> dict[str, Any]:
    """Run the suite and return the result, JSON-able."""
    where = surroundings()
    with tempfile.TemporaryDirectory() as folder:
        tests = outcomes(suite(Path(folder), not given.short))
    targets = [
        Target(
            f"failures of {one['test']}",
            0.0,
            True,
            None if one["skipped"] else Interval(*[float(one["failed"])] * 3),
            one["skipped"] or "",
        )
        for one in tests
    ]
    return {
        "what": "the fault suite" + (", short form" if given.short else ""),
        **where,
        "command": "python -m bench.faults" + (" --short" if given.short else ""),
        "tests": tests,
        "targets": {target.name: target.to_dict() for target in targets},
    }


def table(result: dict[str, Any]) -> str:
    """Return a result as text."""
    lines = [result["what"]]
    for one in result["tests"]:
        noted = ", ".join(f"{name} {value}" for name, value in one["figures"].items())
        lines.append(f"{one['seconds']:7.1f} s  {one['test']}{f'  ({noted})' if noted else ''}")
    return "\n".join([*lines, *verdicts(result)])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print and write."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--json", action="store_true", help="print the result as one JSON object")
    options.add_argument("--out", type=Path, metavar="FILE", help="write the result to FILE too")
    options.add_argument("--short", action="store_true", help="as in make test")
    given = options.parse_args(arguments)
    result = run(given)
    return publish(given, result, table)


if __name__ == "__main__":
    sys.exit(main())
