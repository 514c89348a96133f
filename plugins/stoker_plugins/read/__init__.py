"""Sources: where samples come from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stoker.lazy import lazy
from stoker.plugins import StageEntry, hookimpl

if TYPE_CHECKING:
    from stoker_plugins.read.balanced import Balanced
    from stoker_plugins.read.dataset import Dataset
    from stoker_plugins.read.dataset_stream import DatasetStream
    from stoker_plugins.read.files import Files
    from stoker_plugins.read.mix import Mix
    from stoker_plugins.read.repeated import Repeated
    from stoker_plugins.read.stream import WebDatasetStream
    from stoker_plugins.read.synthetic import Synthetic
    from stoker_plugins.read.webdataset import WebDataset
    from stoker_plugins.read.weighted import Weighted

__all__ = [
    "Balanced",
    "Dataset",
    "DatasetStream",
    "Files",
    "Mix",
    "Repeated",
    "Synthetic",
    "WebDataset",
    "WebDatasetStream",
    "Weighted",
]
__getattr__ = lazy(
    __name__,
    {
        "Balanced": "balanced",
        "Dataset": "dataset",
        "DatasetStream": "dataset_stream",
        "Files": "files",
        "Mix": "mix",
        "Repeated": "repeated",
        "Synthetic": "synthetic",
        "WebDataset": "webdataset",
        "WebDatasetStream": "stream",
        "Weighted": "weighted",
    },
)


@hookimpl
def stoker_stages() -> Iterator[StageEntry]:
    """Bring the built-in sources."""
    here = __name__
    yield StageEntry("read.files", f"{here}.files:Files", "read", "pictures in class folders")
    yield StageEntry(
        "read.webdataset", f"{here}.webdataset:WebDataset", "read", "local tar shards, by index"
    )
    yield StageEntry(
        "read.webdataset_stream",
        f"{here}.stream:WebDatasetStream",
        "read",
        "tar shards that can only be streamed, such as .tar.gz",
    )
    yield StageEntry(
        "read.synthetic", f"{here}.synthetic:Synthetic", "read", "made-up pictures, from a seed"
    )
    yield StageEntry(
        "read.dataset", f"{here}.dataset:Dataset", "read", "a map-style dataset or a sequence"
    )
    yield StageEntry(
        "read.dataset_stream",
        f"{here}.dataset_stream:DatasetStream",
        "read",
        "an iterable dataset, or any iterable",
    )
    yield StageEntry(
        "read.weighted", f"{here}.weighted:Weighted", "read", "another source's samples, by weight"
    )
    yield StageEntry(
        "read.balanced",
        f"{here}.balanced:Balanced",
        "read",
        "another source's samples, each class equally often",
    )
    yield StageEntry(
        "read.repeated",
        f"{here}.repeated:Repeated",
        "read",
        "another source's samples, each several times",
    )
    yield StageEntry("read.mix", f"{here}.mix:Mix", "read", "several sources in one, by weight")
