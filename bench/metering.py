"""Metering's share of the CPU time of a sample: JPEG decode, random resized crop, flip, stack.

    python -m bench.metering [--json] [--out FILE] [--rounds N] [--scale F]

Direct accounting, since no comparison of runs could tell 1 % from a machine's drift: what
each kind of metering costs (in tight loops, in CPU time) times how often it happens
(counted in a real run) over the CPU time of that run's stages. Each round is a pair of
both. Beside it stands the share with caches that a picture went through in between.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

if __package__ in (None, ""):  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.common import (
    SEED,
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
from bench.metering_costs import (
    BATCH_STAGE,
    CONSUMER,
    GAUGE,
    HAND_OVER,
    STAGE,
    WAIT,
    cold_ns,
    cost_loops,
    warm_ns,
)
from stoker import Pipeline
from stoker.engine.consumer import Consumer
from stoker.engine.jobs import Chunk, Job
from stoker.engine.runners import Runner
from stoker.engine.segment import Segment
from stoker.loader import Loader
from stoker.measure.meter import Gauge, WaitMeter
from stoker_plugins import augment, collate, decode, read

PICTURES, BATCH = 192, 64
WARM_TURNS, COLD_TURNS = 4000, 60
ROUNDS, LEAST_ROUNDS = 25, 20
LIMIT_PERCENT = 1.0
PER_CHUNK = (STAGE, HAND_OVER, GAUGE, WAIT)
"""Kinds that happen less often where a chunk holds several samples."""


# -- the pipeline --------------------------------------------------------------------


def make_pictures(root: Path, count: int) -> None:
    """Write JPEGs of ImageNet-like sizes: cut from scikit-learn's two photographs.

    Args:
        root: folder to put class folders with pictures in.
        count: how many, about 100 kB each.
    """
    from PIL import Image
    from sklearn.datasets import load_sample_images

    photographs = [Image.fromarray(array) for array in load_sample_images().images]
    draw = random.Random(SEED)
    for number in range(count):
        photograph = photographs[number % len(photographs)]
        width, height = draw.randint(400, 500), draw.randint(350, 375)
        left = draw.randint(0, photograph.width - width)
        top = draw.randint(0, photograph.height - height)
        folder = root / f"photograph-{number % len(photographs)}"
        folder.mkdir(parents=True, exist_ok=True)
        cut = photograph.crop((left, top, left + width, top + height))
        cut.save(folder / f"{number:04}.jpg", quality=95)


def pipeline(root: Path) -> Pipeline:
    """Return what is measured."""
    return Pipeline(
        "metering",
        read.Files(root),
        decode.Image(),
        augment.RandomResizedCrop(224),
        augment.Flip(),
        collate.Stack(BATCH),
        device="cpu",
        seed=SEED,
    )


# -- how often -----------------------------------------------------------------------


@contextmanager
def counting() -> Iterator[list[str]]:
    """Yield a list to which every piece of metering in this process adds its kind."""
    seen: list[str] = []  # appending is atomic, so workers need no lock

    def watch(cls: type, method: str, kind: Callable[..., str]) -> Any:
        original = getattr(cls, method)

        def watched(*args: Any) -> Any:
            seen.append(kind(*args))
            return original(*args)

        return mock.patch.object(cls, method, watched)

    with (
        watch(Runner, "count", lambda runner, job, *_: STAGE if _is_chunk(job) else BATCH_STAGE),
        watch(Segment, "_through", lambda *_: HAND_OVER),
        watch(Gauge, "change", lambda *_: GAUGE),
        watch(WaitMeter, "end", lambda *_: WAIT),
        watch(Consumer, "hand_over", lambda *_: CONSUMER),
    ):
        yield seen


def _is_chunk(job: Job) -> bool:
    return isinstance(job, Chunk)


@dataclass(frozen=True)
class Epoch:
    """What one epoch did."""

    samples: int
    cpu_ns: int
    """Of all stages."""
    sample_stages: int
    times: Mapping[str, int]
    """How often each kind of metering happened."""


def run_epoch(loader: Loader) -> Epoch:
    """Return what one epoch of a loader did."""
    plan = loader.plan
    with counting() as seen:
        before = loader.snapshot()
        for _ in loader:
            pass
        after = loader.snapshot()
    done = {name: after.stages[name] - before.stages[name] for name in plan.names}
    return Epoch(
        done[plan.names[0]].items_in,
        sum(total.cpu_ns for total in done.values()),
        sum(len(part.stages) for part in plan.segments if part.part == "samples"),
        Counter(seen),
    )


# -- the account ---------------------------------------------------------------------


@dataclass(frozen=True)
class Round:
    """An epoch, and what each kind of metering cost beside it."""

    epoch: Epoch
    warm_ns: Mapping[str, float]
    cold_ns: Mapping[str, float]

    @property
    def samples_per_chunk(self) -> float:
        """Mean size of the hand-overs."""
        return self.epoch.samples * self.epoch.sample_stages / self.epoch.times[STAGE]

    def metering_ns(self, cost_ns: Mapping[str, float]) -> float:
        """Return what metering took of the CPU time of one sample."""
        times, samples = self.epoch.times, self.epoch.samples
        return sum(cost_ns[kind] * times[kind] for kind in cost_ns) / samples

    def worst_ns(self, cost_ns: Mapping[str, float]) -> float:
        """Return what it would take if every chunk held one sample."""
        times, samples = self.epoch.times, self.epoch.samples
        more = {kind: self.samples_per_chunk if kind in PER_CHUNK else 1.0 for kind in cost_ns}
        return sum(cost_ns[kind] * times[kind] * more[kind] for kind in cost_ns) / samples

    def percent(self, metering_ns: float) -> float:
        """Return a time as a share of a sample's CPU time."""
        return 100 * metering_ns / (self.epoch.cpu_ns / self.epoch.samples)


def measure(root: Path, rounds: int, scale: float) -> list[Round]:
    """Return the rounds, after a warm-up epoch."""
    warm_turns, cold_turns = max(2, int(WARM_TURNS * scale)), max(2, int(COLD_TURNS * scale))
    made = []
    with pipeline(root) as loader:
        run_epoch(loader)
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
            epoch = run_epoch(loader)
            loops = cost_loops(loader)
            loader.set_epoch(loader.epoch)  # leaves the epoch that the loops began
            made.append(
                Round(
                    epoch,
                    {kind: warm_ns(loop, warm_turns) for kind, loop in loops.items()},
                    {kind: cold_ns(loop, cold_turns) for kind, loop in loops.items()},
                )
            )
    return made


def run(given: argparse.Namespace, repeat: str) -> dict[str, Any]:
    """Measure and return the result, JSON-able."""
    where = surroundings(("scikit-learn",))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_pictures(root, max(4, int(PICTURES * given.scale)))
        sizes = [path.stat().st_size for path in root.rglob("*.jpg")]
        rounds = measure(root, given.rounds, given.scale)
    share = median([one.percent(one.metering_ns(one.warm_ns)) for one in rounds])
    worst = median([one.percent(one.worst_ns(one.warm_ns)) for one in rounds])
    cold = median([one.percent(one.metering_ns(one.cold_ns)) for one in rounds])
    targets = [
        Target("metering, % of a sample's CPU time", LIMIT_PERCENT, True, share),
        Target("the same, every chunk of one sample", LIMIT_PERCENT, True, worst),
    ]
    return {
        "what": "metering's share of the CPU time of a sample: JPEG decode, RandomResizedCrop(224)",
        **where,
        "command": repeat,
        "rounds": given.rounds,
        "cautions": cautions(given, where, LEAST_ROUNDS),
        "pictures": len(sizes),
        "kilobytes_per_picture": digits(sum(sizes) / len(sizes) / 1e3),
        "samples_per_chunk": digits(median([one.samples_per_chunk for one in rounds]).value),
        "cpu_us_per_sample": _us([one.epoch.cpu_ns / one.epoch.samples for one in rounds]),
        "metering_us_per_sample": _us([one.metering_ns(one.warm_ns) for one in rounds]),
        "share_percent": share.to_dict(),
        "share_percent_chunks_of_one": worst.to_dict(),
        "share_percent_cold_caches": cold.to_dict(),
        "kinds": {kind: _kind(kind, rounds) for kind in rounds[0].warm_ns},
        "targets": {target.name: target.to_dict() for target in targets},
    }


def _kind(kind: str, rounds: Sequence[Round]) -> dict[str, Any]:
    times = [one.epoch.times[kind] / one.epoch.samples for one in rounds]
    return {
        "times_per_sample": digits(median(times).value),
        "us": _us([one.warm_ns[kind] for one in rounds]),
        "us_cold_caches": _us([one.cold_ns[kind] for one in rounds]),
    }


def _us(values_ns: Sequence[float]) -> dict[str, float]:
    return median([value / 1e3 for value in values_ns]).to_dict()


def table(result: Mapping[str, Any]) -> str:
    """Return a result as text."""
    lines = [
        f"{result['what']}; {result['rounds']} rounds",
        f"{'':34}  {'times a sample':>14}  {'us':>6}  {'us, cold':>8}",
    ]
    for kind, row in result["kinds"].items():
        cost, cold = row["us"]["value"], row["us_cold_caches"]["value"]
        lines.append(f"{kind:34}  {row['times_per_sample']:14.3g}  {cost:6.3g}  {cold:8.3g}")
    cpu, metering = result["cpu_us_per_sample"], result["metering_us_per_sample"]
    cold = result["share_percent_cold_caches"]
    lines += [
        f"{metering['value']:.3g} us of {cpu['value']:,.0f} us of CPU time a sample; "
        f"{result['samples_per_chunk']:.3g} samples a chunk",
        f"with cold caches: {cold['value']:.3g} % ({cold['low']:.3g} to {cold['high']:.3g})",
    ]
    return "\n".join([*lines, *result["cautions"], *verdicts(result)])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write."""
    options = parser((__doc__ or "").splitlines()[0], ROUNDS)
    given = options.parse_args(arguments)
    result = run(given, command("bench.metering", given, options.parse_args([])))
    return publish(given, result, table)


if __name__ == "__main__":
    sys.exit(main())
