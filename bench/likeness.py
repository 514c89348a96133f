"""Does decode.jpeg give the pictures that decode.image gives?

    python -m bench.likeness [--json] [--out FILE] [--pictures FOLDER] [--count N]

Both decode the same JPEG photographs and crop them for training with the same draws
(RandomResizedCrop 224), as two pipelines. What comes out is compared pixel by pixel, as PSNR,
and in its place, by the phase of the cross-power spectrum: a shift that is the same in all
pictures would teach a model a lie. A folder of JPEG pictures can be given; by default they
are cut from photographs as bench.peers cuts them.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray

if __package__ in (None, ""):  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.common import (
    Interval,
    Target,
    command,
    digits,
    median,
    parser,
    publish,
    surroundings,
    verdicts,
)
from bench.peers_pictures import CACHE, make_pictures, photographs
from stoker import Pipeline
from stoker.stages import Map
from stoker_plugins import augment, collate, decode, read

COUNT = 1000
SIZE = 224
MIN_MEAN_DB, MIN_WORST_DB, MAX_SHIFT_PX = 50.0, 38.0, 0.1
WORST = 0.01
"""Share of the pictures that the second bound is for: it holds for the best of them."""
EQUAL_DB = 100.0
"""What equal pictures count as: PSNR has no number for them."""
_LOW = 0.15  # cycles/px: above it a photograph has little that stands out from rounding


@dataclass(frozen=True)
class Likeness:
    """How two pictures compare."""

    psnr_db: float
    """Infinite where they are equal."""
    shift_px: tuple[float, float]
    """(down, right) that the second lies from the first."""


def psnr(one: NDArray[Any], other: NDArray[Any]) -> float:
    """Return the peak signal-to-noise ratio of 8-bit pictures in dB, infinite if equal."""
    error = float(numpy.square(one.astype(float) - other.astype(float)).mean())
    return 10 * math.log10(255**2 / error) if error else math.inf


def shift(one: NDArray[Any], other: NDArray[Any]) -> tuple[float, float]:
    """Return how far (down, right) a picture lies from another, in px.

    Fits a plane to the phase of the cross-power spectrum at low frequencies, weighted by its
    magnitude, which resolves shifts well below a pixel (Stone, Orchard, Chang and Martucci,
    2001). Meant for shifts of less than a pixel or so: larger ones wrap around.

    Args:
        one: (H, W, C) or (H, W).
        other: of the same shape.
    """
    spectra = [numpy.fft.fft2(_windowed(picture)) for picture in (one, other)]
    cross = spectra[0] * numpy.conj(spectra[1])
    height, width = cross.shape
    down, right = numpy.meshgrid(numpy.fft.fftfreq(height), numpy.fft.fftfreq(width), indexing="ij")
    radius = numpy.hypot(down, right)
    low = (radius > 0) & (radius < _LOW)
    weight = numpy.sqrt(numpy.abs(cross[low]))
    plane = -2 * math.pi * numpy.stack([down[low], right[low]], axis=1)
    found, *_ = numpy.linalg.lstsq(plane * weight[:, None], numpy.angle(cross[low]) * weight)
    return float(found[0]), float(found[1])


def _windowed(picture: NDArray[Any]) -> NDArray[Any]:
    """Return a picture's light, faded out towards its edges: they are not periodic."""
    light = picture.astype(float)
    light = light.mean(axis=2) if light.ndim == 3 else light
    height, width = light.shape
    window = numpy.outer(numpy.hanning(height), numpy.hanning(width))
    faded: NDArray[Any] = (light - light.mean()) * window
    return faded


def compare(folder: Path, count: int, progress: Callable[[str], Any]) -> list[Likeness]:
    """Return how the two decoders' crops of a folder's pictures compare, `count` at the most."""
    pairs = zip(*(_crops(folder, stage) for stage in (decode.Image(), decode.Jpeg())), strict=True)
    found: list[Likeness] = []
    for (key, one), (same, other) in pairs:
        assert key == same, f"{key} beside {same}: the two read in different orders"
        found.append(Likeness(psnr(one, other), shift(one, other)))
        if len(found) % 250 == 0:
            progress(f"{len(found)} pictures compared")
        if len(found) == count:
            break
    return found


def _crops(folder: Path, decoder: Map) -> Iterator[tuple[str, NDArray[Any]]]:
    pipeline = Pipeline(
        "likeness",
        read.Files(str(folder), shuffle=True),
        decoder,
        augment.RandomResizedCrop(SIZE),
        collate.List(16, drop_last=False),
        seed=17,
        device="cpu",
    )
    with pipeline as loader:
        for batch in loader:
            for key, image in zip(batch["__key__"], batch["image"], strict=True):
                yield key, numpy.asarray(image)


def targets(found: Sequence[Likeness]) -> list[Target]:
    """Return what the fast decoder is held to."""
    levels = sorted(min(one.psnr_db, EQUAL_DB) for one in found)
    worst = levels[max(math.ceil(len(levels) * WORST) - 1, 0)]
    shifts = numpy.array([one.shift_px for one in found])
    # Systematic: the mean over pictures. Its interval is that of the mean, by the larger axis.
    means = shifts.mean(axis=0)
    error = shifts.std(axis=0) / math.sqrt(len(found))
    axis = int(numpy.argmax(numpy.abs(means)))
    size, spread = abs(float(means[axis])), 1.96 * float(error[axis])
    single = float(numpy.hypot(*shifts.T).max())
    mean_db = sum(levels) / len(levels)
    spread_db = 1.96 * float(numpy.std(levels)) / math.sqrt(len(levels))
    return [
        Target(
            "mean PSNR, dB",
            MIN_MEAN_DB,
            False,
            Interval(mean_db, mean_db - spread_db, mean_db + spread_db),
        ),
        Target("PSNR of the worst 1 %, dB", MIN_WORST_DB, False, Interval(worst, worst, worst)),
        Target(
            "mean shift, px",
            MAX_SHIFT_PX,
            True,
            Interval(size, max(size - spread, 0), size + spread),
        ),
        Target("largest shift of a picture, px", MAX_SHIFT_PX, True, Interval(*[single] * 3)),
    ]


def run(
    given: argparse.Namespace, folder: Path, repeat: str, progress: Callable[[str], Any]
) -> dict[str, Any]:
    """Compare and return the result, JSON-able."""
    where = surroundings(("simplejpeg", "pillow"))
    found = compare(folder, given.count, progress)
    equal = sum(math.isinf(one.psnr_db) for one in found)
    unequal = [one.psnr_db for one in found if math.isfinite(one.psnr_db)]
    return {
        "what": f"decode.jpeg beside decode.image: {len(found):,} photographs, "
        f"RandomResizedCrop {SIZE}",
        **where,
        "command": repeat,
        "pictures": len(found),
        "equal": equal,
        "psnr_db_of_unequal": median(unequal).to_dict() if unequal else None,
        "lowest_psnr_db": digits(min(unequal)) if unequal else None,
        "equal_counts_as_db": EQUAL_DB,
        "targets": {target.name: target.to_dict() for target in targets(found)},
    }


def table(result: dict[str, Any]) -> str:
    """Return a result as text."""
    lines = [result["what"], f"{result['equal']:,} of {result['pictures']:,} equal to the last bit"]
    if result["psnr_db_of_unequal"]:
        typical, lowest = result["psnr_db_of_unequal"]["value"], result["lowest_psnr_db"]
        lines.append(f"the others: {typical:.1f} dB (median), lowest {lowest:.1f} dB")
    return "\n".join([*lines, *verdicts(result)])


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print and write."""
    options = parser((__doc__ or "").splitlines()[0], 1)
    options.add_argument("--pictures", type=Path, metavar="FOLDER", help="JPEG pictures to take")
    options.add_argument("--count", type=int, default=COUNT, metavar="N", help="of them")
    given = options.parse_args(arguments)
    repeat = command("bench.likeness", given, options.parse_args([]))
    tell = partial(print, file=sys.stderr)
    result = run(given, given.pictures or pictures(tell), repeat, tell)
    return publish(given, result, table)


def pictures(tell: Callable[[str], object]) -> Path:
    """Return a folder of pictures cut as those of `bench.peers`, made on first use."""
    made = make_pictures(CACHE, photographs(None, tell), train=1024, val=1, per_shard=1024)
    return Path(made.files)


if __name__ == "__main__":
    sys.exit(main())
