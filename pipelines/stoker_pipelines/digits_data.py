"""The handwritten digits that scikit-learn carries, as shards of PNG pictures."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from stoker.errors import UsageError
from stoker.rng import stable_key
from stoker.sample import KEY, Sample
from stoker_plugins.folders import new_folder
from stoker_plugins.shards import SPLIT_SHARDS, write_shards

COUNTS = "digits.json"
"""The file beside the shards that holds their counts; it marks the data as whole."""


def make_digits(
    out: Path, *, val_share: float = 0.2, samples_per_shard: int = 500, force: bool = False
) -> dict[str, Any]:
    """Write the 1,797 handwritten digits of scikit-learn as shards.

    Pictures are 8 x 8 grey PNGs, labels the digits 0 to 9 (`.cls`). The split holds
    the same share of every digit and is equal every time.

    Args:
        out: the folder for train-*.tar and val-*.tar; missing or empty.
        val_share: share of each digit's pictures that goes to val-*.tar, above 0 and below 1.
        samples_per_shard: pictures in one shard.
        force: replace the shards of an earlier run.

    Returns:
        Where the shards are, and counts of what was written.

    Raises:
        UsageError: scikit-learn is missing, or `out` holds something already.
    """
    if not 0 < val_share < 1:
        raise UsageError(f"val_share={val_share}: allowed is above 0 and below 1")
    images, labels = _load()
    held_out = _held_out(labels, val_share)
    parts = {
        "train": [i for i in range(len(labels)) if i not in held_out],
        "val": sorted(held_out),
    }
    with new_folder(out, force=force, stale=SPLIT_SHARDS) as partial:
        written = {
            part: write_shards(_samples(images, labels, rows), partial, part, samples_per_shard)
            for part, rows in parts.items()
        }
        counts = {part: written[part].samples for part in parts}
        (partial / COUNTS).write_text(json.dumps(counts) + "\n", "utf-8")
    return {
        "out": str(out),
        "samples": sum(part.samples for part in written.values()),
        "shards": sum(part.shards for part in written.values()),
        **counts,
    }


def ensure_digits(out: Path) -> dict[str, int]:
    """Make the digits where they are not there yet; return the counts of "train" and "val"."""
    marker = Path(out) / COUNTS
    if not marker.is_file():
        try:
            make_digits(Path(out))
        except UsageError:
            if not marker.is_file():  # else another process made them at the same time
                raise
    counts: dict[str, int] = json.loads(marker.read_text("utf-8"))
    return counts


def _load() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return pictures (1797, 8, 8) in grey values 0 to 255, and labels (1797,)."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise UsageError(
            "the digits come with scikit-learn, which is not installed; "
            "pip install 'stoker[demo]' brings it"
        ) from error
    digits = load_digits()
    return np.rint(digits.images * (255 / 16)).astype(np.uint8), digits.target


def _held_out(labels: Sequence[int] | NDArray[np.int64], share: float) -> set[int]:
    """Return the rows to validate with: of each label the share whose hashes come first."""
    rows: dict[int, list[int]] = defaultdict(list)
    for row, label in enumerate(labels):
        rows[int(label)].append(row)
    chosen: set[int] = set()
    for same in rows.values():
        same.sort(key=lambda row: stable_key("val", row))
        chosen.update(same[: min(len(same) - 1, max(1, round(share * len(same))))])
    return chosen


def _samples(
    images: NDArray[np.uint8], labels: NDArray[np.int64], rows: Sequence[int]
) -> Iterator[Sample]:
    for row in rows:
        png = io.BytesIO()
        Image.fromarray(images[row]).save(png, "png")
        yield {KEY: f"{row:04d}", "png": png.getvalue(), "cls": int(labels[row])}
