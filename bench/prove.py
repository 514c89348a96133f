"""Everything heavy, one after another, each with its verdict against its targets.

    python -m bench.prove [NAME ...] [--results FOLDER]

Each item runs in a process of its own and writes `bench/results/NAME.json` with machine,
versions and command. Ends with 1 if a command failed, or a target was missed or could not
be measured; a failed command leaves the item's last result as it was.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.common import RESULTS, all_met, verdicts, write

ROOT = Path(__file__).resolve().parents[1]
KEYS = ("machine", "versions", "command", "targets")
"""What every result must say."""


@dataclass(frozen=True)
class Item:
    """One thing to prove."""

    name: str
    command: tuple[str, ...]
    """Arguments for Python. It takes `--out FILE` and writes its result there."""
    result: str
    """Name of the result's file."""


ITEMS = (
    Item("overhead", ("-m", "bench.overhead"), "overhead.json"),
    Item("metering", ("-m", "bench.metering"), "metering.json"),
    Item("planted", ("-m", "bench.planted"), "planted.json"),
    Item("watch", ("-m", "bench.watch"), "watch.json"),
    Item("peers", ("-m", "bench.peers"), "peers.json"),
    Item("likeness", ("-m", "bench.likeness"), "likeness.json"),
    Item("index", ("-m", "bench.index"), "index.json"),
    Item("processes", ("-m", "bench.processes"), "processes.json"),
    Item("faults", ("-m", "bench.faults"), "faults.json"),
)


def prove(item: Item, results: Path) -> dict[str, Any]:
    """Run an item, keep its result in a folder, and return it.

    Raises:
        RuntimeError: the command failed, or its result lacks what every result must say.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / item.result
        done = subprocess.run([sys.executable, *item.command, "--out", str(out)], cwd=ROOT)
        if done.returncode:
            raise RuntimeError(f"the command ended with {done.returncode}")
        if not out.exists():
            raise RuntimeError("the command wrote no result")
        result: dict[str, Any] = json.loads(out.read_text())
    missing = [key for key in KEYS if key not in result]
    if missing:
        raise RuntimeError(f"the result says nothing on {', '.join(missing)}")
    write(results / item.result, result)
    return result


def verdict(item: Item, results: Path) -> tuple[bool, str]:
    """Run an item; return whether all went well, and a line that says so or why not."""
    try:
        result = prove(item, results)
    except (RuntimeError, ValueError) as error:
        return False, f"{item.name}: FAILED: {error}"
    lines = verdicts(result)
    if all_met(result):
        return True, f"{item.name}: all {len(lines)} targets met"
    short = [" ".join(line.split()) for line in lines if not line.startswith("met ")]
    return False, f"{item.name}: {len(short)} of {len(lines)} targets not met: {'; '.join(short)}"


def main(arguments: Sequence[str] | None = None, items: Sequence[Item] = ITEMS) -> int:
    """Prove all items, or those that are named."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("names", nargs="*", metavar="NAME", help="items to prove; default: all")
    options.add_argument("--results", type=Path, default=RESULTS, help="folder for the results")
    given = options.parse_args(arguments)
    known = [item.name for item in items]
    unknown = [name for name in given.names if name not in known]
    if unknown:
        options.error(f"no item {', '.join(unknown)}; there are {', '.join(known)}")
    told = []
    for item in items:
        if not given.names or item.name in given.names:
            print(f"\n== {item.name}: python {' '.join(item.command)}", flush=True)
            told.append(verdict(item, given.results))
    print("\n== verdicts")
    for _, line in told:
        print(line)
    return 0 if all(well for well, _ in told) else 1


if __name__ == "__main__":
    sys.exit(main())
