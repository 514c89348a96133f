"""Ready-made pipelines, declared as any user would, and the data that they need."""

from __future__ import annotations

from collections.abc import Iterator

from stoker.plugins import DataEntry, PipelineEntry, hookimpl


@hookimpl
def stoker_pipelines() -> Iterator[PipelineEntry]:
    """Bring the ready-made pipelines."""
    yield PipelineEntry(
        "digits", f"{__name__}.digits:digits", "handwritten digits, a small CNN: seconds on a CPU"
    )
    yield PipelineEntry(
        "photos",
        f"{__name__}.photos:photos",
        "JPEG pictures in ImageNet's sizes for a fast device: the loader binds; or training",
    )


@hookimpl
def stoker_data() -> Iterator[DataEntry]:
    """Bring the makers of data sets."""
    yield DataEntry(
        "digits", f"{__name__}.digits_data:make_digits", "1,797 handwritten digits as shards"
    )
    yield DataEntry(
        "photos",
        f"{__name__}.photos_data:make_photos",
        "crops of photographs in ImageNet's sizes as shards",
    )
    yield DataEntry(
        "shards", "stoker_plugins.shards:make_shards", "your folder of pictures as shards"
    )
