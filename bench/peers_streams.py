"""LitData and MosaicML Streaming for `bench.peers`: loaders that read formats of their own.

The pictures are written in these once, by `prepare`, before anything is timed.
"""

from __future__ import annotations

import shutil
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from bench.peers_job import Epoch, Job, made, read

_CHUNK_BYTES = 1 << 24
"""Some ten chunks, so that shuffling and both workers have several."""


def prepare_litdata(job: Job) -> None:
    """Write LitData's chunks, if they are not there."""
    from litdata import optimize

    out = _folder(job, "litdata")
    if not (out / "index.json").is_file():
        shutil.rmtree(out, ignore_errors=True)
        files = job.shuffled(0)
        optimize(_record, files, str(out), chunk_bytes=_CHUNK_BYTES, num_workers=1, verbose=False)


def _record(file: tuple[str, int]) -> dict[str, Any]:
    path, label = file
    return {"jpg": read(path), "cls": label}


@contextmanager
def litdata(job: Job, how: str) -> Iterator[Epoch]:
    """Yield LitData's loader with a worker process a core, kept between epochs."""
    from litdata import StreamingDataLoader, StreamingDataset

    class Chunks(StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, index: Any) -> Any:
            return _prepared(super().__getitem__(index), how, job)

    loader = StreamingDataLoader(
        Chunks(str(_folder(job, "litdata")), shuffle=True, drop_last=True),
        batch_size=job.batch_size,
        num_workers=job.workers,
        drop_last=True,
        persistent_workers=True,
    )
    yield lambda number: loader


def _prepared(found: Any, how: str, job: Job) -> Any:
    return made(found["jpg"], how, job.size), found["cls"]


def prepare_streaming(job: Job) -> None:
    """Write Streaming's shards, if they are not there."""
    _without_torchvision()
    from streaming import MDSWriter

    out = _folder(job, "mds")
    if not (out / "index.json").is_file():
        shutil.rmtree(out, ignore_errors=True)
        columns = {"jpg": "bytes", "cls": "int"}
        with MDSWriter(out=str(out), columns=columns, size_limit=_CHUNK_BYTES) as writer:
            for file in job.shuffled(0):
                writer.write(_record(file))


@contextmanager
def streaming(job: Job, how: str) -> Iterator[Epoch]:
    """Yield torch's DataLoader over Streaming's dataset, a worker process a core, kept."""
    _without_torchvision()
    from streaming import StreamingDataset
    from streaming.base.util import clean_stale_shared_memory
    from torch.utils.data import DataLoader

    class Shards(StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, index: Any) -> Any:
            return _prepared(super().__getitem__(index), how, job)

    clean_stale_shared_memory()
    loader: Any = DataLoader(
        Shards(local=str(_folder(job, "mds")), shuffle=True, batch_size=job.batch_size),
        batch_size=job.batch_size,
        num_workers=job.workers,
        drop_last=True,
        persistent_workers=True,
    )
    yield lambda number: loader


class _Absent(types.ModuleType):
    """Stands for torchvision, whose builds want CUDA beside a torch that has none.

    Streaming imports it for datasets that are not used here; nothing here calls it.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def _without_torchvision() -> None:
    for name in ("", ".datasets", ".transforms", ".transforms.functional"):
        module = _Absent(f"torchvision{name}")
        module.__spec__ = ModuleSpec(module.__name__, None)
        sys.modules.setdefault(module.__name__, module)


def _folder(job: Job, name: str) -> Path:
    return Path(job.formats) / name
