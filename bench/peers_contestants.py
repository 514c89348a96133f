"""The loaders that `bench.peers` compares, each set up as its documentation recommends.

A contestant is a context manager: it takes the job and yields a function that begins an
epoch and returns an iterator of its batches. Peers are imported when they are opened.
Each may use as many threads or processes as there are cores, beside the consumer's own.
"""

from __future__ import annotations

import multiprocessing
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from bench.peers_job import Job, loaded, prepared, stacked, stacked_tensors
from stoker.parameters import param
from stoker.rng import Rng
from stoker.sample import Sample
from stoker.stages import Map

Epoch = Callable[[int], Iterable[Any]]
"""Begins an epoch by its number, and gives its batches."""

Open = Callable[[Job], AbstractContextManager[Epoch]]


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


# -- torch -----------------------------------------------------------------------------


class Pictures:
    """A map-style dataset over the files."""

    def __init__(self, job: Job) -> None:
        self.files, self.size = job.listed(), job.size

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Any:
        return loaded(self.files[index], self.size)

    def batch(self, indices: Iterable[int]) -> Any:
        """Return the pictures of some indices, stacked."""
        return stacked_tensors([self[index] for index in indices])


@contextmanager
def dataloader(job: Job) -> Iterator[Epoch]:
    """Yield torch's DataLoader with a worker process a core, kept between epochs."""
    from torch.utils.data import DataLoader

    made: Any = DataLoader(
        Pictures(job),  # type: ignore[arg-type]
        batch_size=job.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=job.workers,
        persistent_workers=True,
    )
    yield lambda number: made


def _nodes(method: str) -> Open:
    @contextmanager
    def opened(job: Job) -> Iterator[Epoch]:
        from torch.utils.data import RandomSampler
        from torchdata import nodes

        pictures: Any = Pictures(job)
        node: Any = nodes.SamplerWrapper(RandomSampler(pictures))
        node = nodes.Batcher(node, batch_size=job.batch_size, drop_last=True)
        workers: dict[str, Any] = {"num_workers": job.workers, "method": method}
        node = nodes.ParallelMapper(node, pictures.batch, **workers)
        loader = nodes.Loader(nodes.Prefetcher(node, prefetch_factor=2))
        yield lambda number: loader

    return opened


# -- others ----------------------------------------------------------------------------


def _spdl(whole_batches: bool) -> Open:
    @contextmanager
    def opened(job: Job) -> Iterator[Epoch]:
        from spdl.pipeline import PipelineBuilder

        one = partial(loaded, size=job.size)

        def batch(files: list[tuple[str, int]]) -> Any:
            return stacked_tensors([one(file) for file in files])

        def epoch(number: int) -> Iterator[Any]:
            builder: Any = PipelineBuilder().add_source(job.shuffled(number))
            if whole_batches:
                builder = builder.aggregate(job.batch_size, drop_last=True)
                builder = builder.pipe(batch, concurrency=job.workers)
            else:
                builder = builder.pipe(one, concurrency=job.workers)
                builder = builder.aggregate(job.batch_size, drop_last=True).pipe(stacked_tensors)
            pipeline = builder.add_sink().build(num_threads=job.workers + (not whole_batches))
            with pipeline.auto_stop():
                yield from pipeline

        yield epoch

    return opened


@contextmanager
def webdataset(job: Job) -> Iterator[Epoch]:
    """Yield WebDataset's WebLoader with a worker process a core, kept between epochs."""
    import webdataset as wds

    dataset = (
        wds.WebDataset(list(job.shards), shardshuffle=len(job.shards))
        .shuffle(1000)
        .map(partial(_from_shard, job.size))
        .batched(job.batch_size, collation_fn=stacked_tensors)
    )
    made = wds.WebLoader(
        dataset, batch_size=None, num_workers=job.workers, persistent_workers=True
    )
    yield lambda number: made


def _from_shard(size: int, sample: dict[str, Any]) -> Any:
    return prepared(sample["jpg"], random, size), int(sample["cls"])


def _grain(processes: bool) -> Open:
    @contextmanager
    def opened(job: Job) -> Iterator[Epoch]:
        import grain

        def epoch(number: int) -> Iterator[Any]:
            files: Any = grain.MapDataset.source(job.listed()).seed(number).shuffle()
            pictures = files.map(partial(loaded, size=job.size))
            if not processes:
                made = pictures.to_iter_dataset(grain.ReadOptions(num_threads=job.workers))
                return iter(made.batch(job.batch_size, drop_remainder=True))
            batches = pictures.batch(job.batch_size, drop_remainder=True)
            reading = grain.ReadOptions(num_threads=1, prefetch_buffer_size=2)
            spread = grain.MultiprocessingOptions(num_workers=job.workers)
            return iter(batches.to_iter_dataset(reading).mp_prefetch(spread))

        yield epoch

    return opened


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
        with ExitStack() as stack:
            loader = stack.enter_context(pipeline)
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
        _nodes("thread"),
        TORCHDATA,
        peer=True,
    ),
    Contestant(
        "torchdata.nodes, processes",
        'as above, method="process"',
        _nodes("process"),
        TORCHDATA,
        peer=True,
    ),
    Contestant(
        "spdl, per picture",
        "pipe(concurrency: one a core), aggregate, pipe(stack); a thread each",
        _spdl(False),
        ("spdl", "torch"),
        peer=True,
    ),
    Contestant(
        "spdl, per batch",
        "aggregate, pipe(a whole batch, concurrency: one a core)",
        _spdl(True),
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
        _grain(False),
        ("grain",),
        peer=True,
    ),
    Contestant(
        "grain, processes",
        "batch, then mp_prefetch(num_workers: one a core)",
        _grain(True),
        ("grain",),
        peer=True,
    ),
    Contestant(SHARED, "read.Files, the function as a stage, collate.Stack; as planned", _stoker(False)),
    Contestant(
        OWN,
        "read.Files, decode.Image, augment.RandomResizedCrop, augment.Flip, collate.Stack; as planned",
        _stoker(True),
    ),
)
