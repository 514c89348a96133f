"""The index of a million keys: bytes a key, and what each worker process holds of its own.

    python -m bench.index [--json] [--out FILE] [--rounds N] [--scale F]

Two processes open one data set of 1,000,000 keys by its kept index, and read all keys
between them, scattered, in each of three epochs. Beside them: a list of as many names
in torch's forked DataLoader workers. Private is memory that no other process has mapped
(USS); the shards are sparse files, since reading is not what is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.common import (
    Target,
    cautions,
    command,
    digits,
    median,
    parser,
    publish,
    surroundings,
    verdicts,
)
from bench.index_data import shards
from stoker.rng import Rng
from stoker_plugins.read import WebDataset

ROOT = Path(__file__).resolve().parents[1]
KEYS, EPOCHS, WORKERS = 1_000_000, 3, 2
ROUNDS = LEAST_ROUNDS = 3
MAX_BYTES_A_KEY = 100.0
MAX_GROWTH = 1.0
"""Bytes a key: what it may cost each worker to read on, where a copy costs 50 and more."""


@dataclass(frozen=True)
class Index:
    """What an index of so many keys costs."""

    keys: int
    columns_nbytes: int
    """Keys, offsets, sizes and fields: in one file that all processes map."""
    order_nbytes: int
    """A shuffled epoch's order, in the parent only."""
    private: list[list[int]]
    """Each worker's private bytes, once opened and after each epoch."""
    proportional: list[list[int]]
    """The same, with what is shared divided among those that share it."""

    @property
    def bytes_a_key(self) -> float:
        """All that the machine holds of it, for any number of workers."""
        return (self.columns_nbytes + self.order_nbytes) / self.keys

    @property
    def growth_a_key(self) -> float:
        """What the worker that grew most holds more of its own after the last epoch."""
        return growth(self.private) / self.keys


def growth(private: Sequence[Sequence[int]]) -> float:
    """Return the most that a worker's memory grew from the first to the largest later figure."""
    first, *later = private
    return max(max(ones) - one for one, ones in zip(first, zip(*later, strict=True), strict=True))


def measure(keys: int, reads: int, epochs: int = EPOCHS) -> Index:
    """Make a data set, read it in two processes, and return what its index costs.

    Args:
        keys: samples of the data set.
        reads: samples that each process reads in an epoch, at most its share.
        epochs: that count.
    """
    with tempfile.TemporaryDirectory() as folder:
        made, pattern = shards(Path(folder), keys)
        source = WebDataset(pattern, shuffle=True)
        order: Any = source.addresses(0, Rng(0, source.name))
        memory = _children(pattern, [0] + [reads] * epochs)
        return Index(
            keys,
            sum(one.nbytes for one in made),
            len(order) * order.itemsize,
            [[one["private"] for one in each] for each in memory],
            [[one["proportional"] for one in each] for each in memory],
        )


def _children(pattern: str, reads: Sequence[int]) -> list[list[dict[str, int]]]:
    """Let worker processes read so many samples each, again and again; return their memory."""
    found = []
    with ExitStack() as stack:
        children = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "bench.index_child", pattern, f"{index}", f"{WORKERS}"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    cwd=ROOT,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                )
            )
            for index in range(WORKERS)
        ]
        try:
            for child in children:
                _answer(child)
            for count in reads:
                for child in children:
                    assert child.stdin is not None
                    print(count, file=child.stdin, flush=True)
                found.append([json.loads(_answer(child)) for child in children])
        except BaseException:
            for child in children:
                child.kill()
            raise
    return found


def _answer(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    line = child.stdout.readline()
    if not line:
        raise RuntimeError("a process of the bench ended early; its error is above")
    return line


def peer(keys: int, epochs: int = EPOCHS) -> float:
    """Return the private bytes that a worker of torch's gains over a list of so many names."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "bench.index_peer", str(keys), str(epochs)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return growth(json.loads(done.stdout))


def targets(rounds: Sequence[Index]) -> list[Target]:
    """Return what the index is held to."""
    costs = median([one.bytes_a_key for one in rounds])
    grown = median([one.growth_a_key for one in rounds])
    return [
        Target("index and order, bytes per key", MAX_BYTES_A_KEY, True, costs),
        Target(
            f"private growth per worker in {EPOCHS} epochs, bytes per key", MAX_GROWTH, True, grown
        ),
    ]


def run(given: argparse.Namespace, repeat: str, progress: Callable[[str], Any]) -> dict[str, Any]:
    """Measure and return the result, JSON-able."""
    where = surroundings()  # before anything loads the machine
    reads = int(KEYS / WORKERS * min(1.0, given.scale))
    rounds, peers = [], []
    for number in range(1, given.rounds + 1):
        progress(f"round {number} of {given.rounds}")
        rounds.append(measure(KEYS, reads))
        peers.append(peer(KEYS))
    last = rounds[-1]
    return {
        "what": f"the index of {KEYS:,} keys in {WORKERS} worker processes, {EPOCHS} epochs",
        **where,
        "command": repeat,
        "rounds": given.rounds,
        "cautions": cautions(given, where, LEAST_ROUNDS),
        "keys": KEYS,
        "reads_per_worker_and_epoch": reads,
        "bytes_per_key": {
            "columns, mapped by all": digits(last.columns_nbytes / KEYS),
            "epoch order, in the parent": digits(last.order_nbytes / KEYS),
        },
        "private_mib": _mib(last.private),
        "proportional_mib": _mib(last.proportional),
        "growth_bytes_per_key": {
            "stoker": median([one.growth_a_key for one in rounds]).to_dict(),
            "list in torch's forked workers": median([one / KEYS for one in peers]).to_dict(),
        },
        "targets": {target.name: target.to_dict() for target in targets(rounds)},
    }


def _mib(figures: Sequence[Sequence[int]]) -> dict[str, list[float]]:
    names = ["opened", *(f"after epoch {number}" for number in range(1, len(figures)))]
    return {
        name: [digits(one / 2**20) for one in ones]
        for name, ones in zip(names, figures, strict=True)
    }


def table(result: dict[str, Any]) -> str:
    """Return a result as text."""
    lines = [f"{result['what']}; {result['rounds']} rounds"]
    lines += [
        f"{value:8.3g} bytes a key: {name}" for name, value in result["bytes_per_key"].items()
    ]
    lines.append("MiB of each worker (the last round): private, proportional")
    for when, private in result["private_mib"].items():
        shares = result["proportional_mib"][when]
        lines.append(f"  {when:14} {_row(private)}   {_row(shares)}")
    for name, grown in result["growth_bytes_per_key"].items():
        lines.append(f"{grown['value']:8.3g} bytes a key of private growth per worker: {name}")
    return "\n".join([*lines, *result["cautions"], *verdicts(result)])


def _row(figures: Sequence[float]) -> str:
    return " ".join(f"{figure:7.1f}" for figure in figures)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write."""
    options = parser((__doc__ or "").splitlines()[0], ROUNDS)
    given = options.parse_args(arguments)
    repeat = command("bench.index", given, options.parse_args([]))
    result = run(given, repeat, lambda text: print(text, file=sys.stderr))
    return publish(given, result, table)


if __name__ == "__main__":
    sys.exit(main())
