"""The loaders that `bench.peers` compares, each set up as its documentation recommends.

Each may use as many threads or processes as there are cores, beside the consumer's own.
"""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from bench.peers_job import Epoch, Job, Open, loaded, prepared, stacked
from bench.peers_libraries import dataloader, grain, nodes, spdl, webdataset
from stoker.parameters import param
from stoker.rng import Rng
from stoker.sample import Sample
from stoker.stages import Map


@dataclass(frozen=True)
class Contestant:
    """One way to do the job."""

    name: str
    settings: str
    open: Open
    needs: tuple[str, ...] = ()
    """Packages that it imports."""
    peer: bool = False
    """It is another library's loader: Stoker is to keep up with it."""


# -- by hand ---------------------------------------------------------------------------


@contextmanager
def limit(job: Job) -> Iterator[Epoch]:
    """Yield what bare processes do, one a core: batches are numbers of pictures."""
    fork = multiprocessing.get_context("fork")
    following = fork.Value("q", 0)
    pipes, processes = [], []
    for _ in range(job.workers):
        here, there = fork.Pipe()
        processes.append(fork.Process(target=_bare_loop, args=(job, there, following), daemon=True))
        processes[-1].start()
        pipes.append(here)

    def epoch(number: int) -> Iterator[int]:
        following.value = 0
        for pipe in pipes:
            pipe.send(number)
        for pipe in pipes:
            yield pipe.recv()

    try:
        yield epoch
    finally:
        for pipe in pipes:
            pipe.send(None)
        for process in processes:
            process.join(5)


def _bare_loop(job: Job, pipe: Any, following: Any) -> None:
    while (epoch := pipe.recv()) is not None:
        files = job.shuffled(epoch)
        done = 0
        while True:
            with following.get_lock():  # whoever is free takes the next: both end together
                at = following.value
                following.value += 1
            if at >= len(files):
                break
            loaded(files[at], job.size)
            done += 1
        pipe.send(done)


@contextmanager
def plain_loop(job: Job) -> Iterator[Epoch]:
    """Yield what one thread does in a loop."""

    def epoch(number: int) -> Iterator[Any]:
        rows = []
        for file in job.shuffled(number):
            rows.append(loaded(file, job.size))
            if len(rows) == job.batch_size:
                yield stacked(rows)
                rows = []

    yield epoch


@contextmanager
def thread_pool(job: Job) -> Iterator[Epoch]:
    """Yield what a pool of threads gives, in order, two batches ahead at most."""
    with ThreadPoolExecutor(job.workers) as pool:

        def epoch(number: int) -> Iterator[Any]:
            coming: deque[Future[Any]] = deque()
            rows = []
            files = iter(job.shuffled(number))
            while True:
                while len(coming) < 2 * job.batch_size and (file := next(files, None)):
                    coming.append(pool.submit(loaded, file, job.size))
                if not coming:
                    return
                rows.append(coming.popleft().result())
                if len(rows) == job.batch_size:
                    yield stacked(rows)
                    rows = []

        yield epoch


# -- Stoker ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Prepare(Map):
    """Prepares a picture by the function that all contestants share."""

    name: ClassVar[str] = "bench.prepare"
    kind: ClassVar[str] = "augment"
    example: ClassVar[str] = "Prepare(224)"

    size: int = param(help="side of the result", unit="px", minimum=1)

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        """Return the sample with an array in place of its file."""
        sample["image"] = prepared(sample.pop("jpg"), rng.random, self.size)
        return sample


def _stoker(own: bool) -> Open:
    @contextmanager
    def opened(job: Job) -> Iterator[Epoch]:
        from stoker import Pipeline
        from stoker_plugins import augment, collate, decode, read

        stages: tuple[Map, ...] = (Prepare(job.size),)
        if own:
            stages = (decode.Image(), augment.RandomResizedCrop(job.size), augment.Flip())
        pipeline = Pipeline(
            "peers",
            read.Files(job.files, shuffle=True),
            *stages,
            collate.Stack(job.batch_size, drop_last=True),
        )
        with pipeline as loader:
            yield lambda number: ((batch["image"], batch["cls"]) for batch in loader)

    return opened


TORCHDATA = ("torch", "torchdata")
LIMIT = "limit"
SHARED, OWN = "stoker (Pillow function)", "stoker (own stages)"

CONTESTANTS = (
    Contestant(LIMIT, "a process a core, the function in a bare loop, no batches", limit),
    Contestant("plain loop", "one thread", plain_loop),
    Contestant("thread pool", "by hand: a thread a core, in order, 2 batches ahead", thread_pool),
    Contestant(
        "torch DataLoader",
        "num_workers: one a core, persistent_workers, prefetch_factor 2",
        dataloader,
        ("torch",),
        peer=True,
    ),
    Contestant(
        "torchdata.nodes, threads",
        'Batcher, ParallelMapper(num_workers: one a core, method="thread"), Prefetcher(2)',
        nodes("thread"),
        TORCHDATA,
        peer=True,
    ),
    Contestant(
        "torchdata.nodes, processes",
        'as above, method="process"',
        nodes("process"),
        TORCHDATA,
        peer=True,
    ),
    Contestant(
        "spdl, per picture",
        "pipe(concurrency: one a core), aggregate, pipe(stack); a thread each",
        spdl(False),
        ("spdl", "torch"),
        peer=True,
    ),
    Contestant(
        "spdl, per batch",
        "aggregate, pipe(a whole batch, concurrency: one a core)",
        spdl(True),
        ("spdl", "torch"),
        peer=True,
    ),
    Contestant(
        "webdataset",
        "shards, shuffle(1000), WebLoader(num_workers: one a core, persistent_workers)",
        webdataset,
        ("webdataset", "torch"),
        peer=True,
    ),
    Contestant(
        "grain, threads",
        "ReadOptions(num_threads: one a core), batch after it",
        grain(False),
        ("grain",),
        peer=True,
    ),
    Contestant(
        "grain, processes",
        "batch, then mp_prefetch(num_workers: one a core)",
        grain(True),
        ("grain",),
        peer=True,
    ),
    Contestant(SHARED, "read.Files, the function as a stage, collate.Stack", _stoker(False)),
    Contestant(
        OWN,
        "read.Files, decode.Image, augment.RandomResizedCrop, augment.Flip, collate.Stack",
        _stoker(True),
    ),
)
