"""Other libraries' loaders for `bench.peers`, each set up as its documentation recommends.

Libraries are imported when their loader is opened.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from bench.peers_job import Epoch, Job, Open, loaded, prepared, stacked_tensors

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


def nodes(method: str) -> Open:
    """Return torchdata.nodes with whole batches a worker, as its guide from DataLoader has it."""

    @contextmanager
    def opened(job: Job) -> Iterator[Epoch]:
        from torch.utils.data import RandomSampler
        from torchdata import nodes as nd

        pictures: Any = Pictures(job)
        node: Any = nd.SamplerWrapper(RandomSampler(pictures))
        node = nd.Batcher(node, batch_size=job.batch_size, drop_last=True)
        workers: dict[str, Any] = {"num_workers": job.workers, "method": method}
        node = nd.ParallelMapper(node, pictures.batch, **workers)
        loader = nd.Loader(nd.Prefetcher(node, prefetch_factor=2))
        yield lambda number: loader

    return opened


# -- others ----------------------------------------------------------------------------


def spdl(whole_batches: bool) -> Open:
    """Return SPDL's pipeline, made anew for each epoch, handing over pictures or batches."""

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
    made = wds.WebLoader(dataset, batch_size=None, num_workers=job.workers, persistent_workers=True)
    yield lambda number: made


def _from_shard(size: int, sample: dict[str, Any]) -> Any:
    return prepared(sample["jpg"], random, size), int(sample["cls"])


def grain(processes: bool) -> Open:
    """Return Grain's dataset, made anew for each epoch, read by threads or by processes."""

    @contextmanager
    def opened(job: Job) -> Iterator[Epoch]:
        import grain as gr

        def epoch(number: int) -> Iterator[Any]:
            files: Any = gr.MapDataset.source(job.listed()).seed(number).shuffle()
            pictures = files.map(partial(loaded, size=job.size))
            if not processes:
                made = pictures.to_iter_dataset(gr.ReadOptions(num_threads=job.workers))
                return iter(made.batch(job.batch_size, drop_remainder=True))
            batches = pictures.batch(job.batch_size, drop_remainder=True)
            reading = gr.ReadOptions(num_threads=1, prefetch_buffer_size=2)
            spread = gr.MultiprocessingOptions(num_workers=job.workers)
            return iter(batches.to_iter_dataset(reading).mp_prefetch(spread))

        yield epoch

    return opened
