"""Sources: where samples come from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stoker.lazy import lazy
from stoker.plugins import StageEntry, hookimpl

if TYPE_CHECKING:
    from stoker_plugins.read.dataset import Dataset
    from stoker_plugins.read.dataset_stream import DatasetStream
    from stoker_plugins.read.files import Files
    from stoker_plugins.read.stream import WebDatasetStream
    from stoker_plugins.read.synthetic import Synthetic
    from stoker_plugins.read.webdataset import WebDataset

__all__ = ["Dataset", "DatasetStream", "Files", "Synthetic", "WebDataset", "WebDatasetStream"]
__getattr__ = lazy(
    __name__,
    {
        "Dataset": "dataset",
        "DatasetStream": "dataset_stream",
        "Files": "files",
        "Synthetic": "synthetic",
        "WebDataset": "webdataset",
        "WebDatasetStream": "stream",
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
