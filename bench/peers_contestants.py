"""The loaders that `bench.peers` compares, each set up as its documentation recommends.

Each may use as many threads or processes as there are cores, beside the consumer's own.
Nothing is imported before it is opened: a contestant's environment may lack all others.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from bench.peers_job import IMAGE, JPEG, PILLOW, Epoch, Job

OWN = "own"
"""How a library prepares a picture that takes no Python function."""


@dataclass(frozen=True)
class Contestant:
    """One way to do the job."""

    name: str
    settings: str
    opener: str
    """"module:function" in this package, which opens it for a job and a way."""
    how: str = PILLOW
    """By which function it prepares a picture, or `OWN`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    """Distributions that it imports, as pip names them."""
    environment: str = ""
    """Where they are; "": where this process runs."""
    preparer: str = ""
    """"module:function" that writes the pictures in the library's own format."""
    peer: bool = False
    """It is another library's loader."""

    def open(self, job: Job) -> AbstractContextManager[Epoch]:
        """Set it up for a job."""
        opened: AbstractContextManager[Epoch] = _found(self.opener)(job, self.how, **self.options)
        return opened

    def prepare(self, job: Job) -> None:
        """Write what it reads, if that is not there; not timed."""
        if self.preparer:
            _found(self.preparer)(job)


def _found(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(f"bench.{module}"), name)


LIMITS = {
    PILLOW: "limit, Pillow function",
    IMAGE: "limit, decode.image",
    JPEG: "limit, decode.jpeg",
}
STOKER = {
    PILLOW: "stoker, Pillow function",
    IMAGE: "stoker, decode.image",
    JPEG: "stoker, decode.jpeg",
}
FAST = ", fast function"
"""Ends the name of a peer that runs the calls of decode.jpeg and its crop."""
DATALOADER = "torch DataLoader"
GRAIN = ("grain, threads", "grain, processes")
DALI, TF_PLAIN = "DALI, antialiased", "tf.data, plain"

_SIMPLEJPEG = ("simplejpeg", "torch")


def _both(
    name: str, settings: str, opener: str, needs: tuple[str, ...], **more: Any
) -> tuple[Contestant, ...]:
    """Return a peer with the Pillow function and with the fast one."""
    fast = tuple(dict.fromkeys((*needs, *_SIMPLEJPEG)))
    return (
        Contestant(name, settings, opener, PILLOW, needs=needs, peer=True, **more),
        Contestant(name + FAST, settings, opener, JPEG, needs=fast, peer=True, **more),
    )


_BY_HAND = (
    *(
        Contestant(
            LIMITS[how],
            "a process a core, the same calls in a bare loop, no batches",
            "peers_bare:limit",
            how,
            needs=_SIMPLEJPEG if how == JPEG else (),
        )
        for how in (PILLOW, IMAGE, JPEG)
    ),
    Contestant("plain loop", "one thread", "peers_bare:plain_loop"),
    Contestant("plain loop" + FAST, "one thread", "peers_bare:plain_loop", JPEG, needs=_SIMPLEJPEG),
    Contestant(
        "thread pool", "a thread a core, in order, 2 batches ahead", "peers_bare:thread_pool"
    ),
)
_TORCH = (
    *_both(
        DATALOADER,
        "files, num_workers: one a core, persistent_workers, prefetch_factor 2",
        "peers_libraries:dataloader",
        ("torch",),
    ),
    *_both(
        DATALOADER + " of a WebDataset",
        "shards, shuffle(1000), else as above",
        "peers_libraries:dataloader_of_shards",
        ("webdataset", "torch"),
    ),
    *_both(
        "torchdata.nodes",
        'Batcher, ParallelMapper(num_workers: one a core, method="thread"), Prefetcher(2)',
        "peers_libraries:nodes",
        ("torchdata", "torch"),
    ),
)
_OTHERS = (
    *_both(
        "SPDL, per picture",
        "pipe(concurrency: one a core), aggregate, pipe(stack); a thread each",
        "peers_libraries:spdl",
        ("spdl", "torch"),
        options={"batches": False},
    ),
    *_both(
        "SPDL, per batch",
        "aggregate, pipe(a whole batch, concurrency: one a core)",
        "peers_libraries:spdl",
        ("spdl", "torch"),
        options={"batches": True},
    ),
    *_both(
        "webdataset",
        "shards, shuffle(1000), batched, WebLoader(num_workers: one a core, persistent_workers)",
        "peers_libraries:webdataset",
        ("webdataset", "torch"),
    ),
    *_both(
        GRAIN[0],
        "ReadOptions(num_threads: one a core), batch after it",
        "peers_libraries:grain",
        ("grain",),
        options={"processes": False},
    ),
    *_both(
        GRAIN[1],
        "batch, then mp_prefetch(num_workers: one a core)",
        "peers_libraries:grain",
        ("grain",),
        options={"processes": True},
    ),
    *_both(
        "LitData",
        "StreamingDataLoader(num_workers: one a core, persistent_workers) of chunks of 16 MiB",
        "peers_streams:litdata",
        ("litdata", "torch"),
        environment="litdata",
        preparer="peers_streams:prepare_litdata",
    ),
    *_both(
        "MosaicML Streaming",
        "StreamingDataset of 16 MiB shards, DataLoader(num_workers: one a core, "
        "persistent_workers)",
        "peers_streams:streaming",
        ("mosaicml-streaming", "torch"),
        environment="streaming",
        preparer="peers_streams:prepare_streaming",
    ),
)
_GRAPHS = tuple(
    Contestant(
        f"{library}, {'antialiased' if antialias else 'plain'}",
        settings,
        opener,
        OWN,
        options={"antialias": antialias},
        needs=needs,
        environment=environment,
        peer=True,
    )
    for library, settings, opener, needs, environment in (
        (
            "tf.data",
            "sample_distorted_bounding_box, decode_and_crop_jpeg, resize, "
            "random_flip_left_right; private pool of a thread a core, prefetch(2)",
            "peers_graphs:tf_data",
            ("tensorflow-cpu",),
            "tf",
        ),
        (
            "DALI",
            "on the CPU: decoders.image_random_crop, resize, flip; num_threads: one a core, "
            "prefetch_queue_depth 2, each batch copied out",
            "peers_graphs:dali",
            ("nvidia-dali-cuda120",),
            "dali",
        ),
    )
    for antialias in (True, False)
)
_STOKER = (
    Contestant(
        STOKER[PILLOW],
        "read.Files, the Pillow function as a stage, collate.Stack",
        "peers_stoker:stoker",
    ),
    Contestant(
        STOKER[IMAGE],
        "read.Files, decode.Image, augment.RandomResizedCrop, augment.Flip, collate.Stack",
        "peers_stoker:stoker",
        IMAGE,
    ),
    Contestant(
        STOKER[JPEG],
        "as above with decode.Jpeg, which makes only what the crop uses",
        "peers_stoker:stoker",
        JPEG,
        needs=_SIMPLEJPEG,
    ),
)
CONTESTANTS = (*_BY_HAND, *_TORCH, *_OTHERS, *_GRAPHS, *_STOKER)
BY_NAME = {contestant.name: contestant for contestant in CONTESTANTS}
NO_FUNCTION = (
    "tf.data and DALI run operators of their own; a Python function in them would measure "
    "Python's lock, and so they are compared by their own operators alone"
)
