"""Other libraries' loaders for `bench.peers`, each set up as its documentation recommends.

Libraries are imported when their loader is opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from bench.peers_job import Epoch, Job, loaded, made, stacked_tensors

# -- torch -----------------------------------------------------------------------------


class Pictures:
    """A map-style dataset over the files."""

    def __init__(self, job: Job, how: str) -> None:
        self.files, self.how, self.size = job.listed(), how, job.size

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Any:
        return loaded(self.files[index], self.how, self.size)

    def batch(self, indices: Iterable[int]) -> Any:
        """Return the pictures of some indices, stacked."""
        return stacked_tensors([self[index] for index in indices])


@contextmanager
def dataloader(job: Job, how: str) -> Iterator[Epoch]:
    """Yield torch's DataLoader with a worker process a core, kept between epochs."""
    from torch.utils.data import DataLoader

    made: Any = DataLoader(
        Pictures(job, how),  # type: ignore[arg-type]
        batch_size=job.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=job.workers,
        persistent_workers=True,
    )
    yield lambda number: made


@contextmanager
def dataloader_of_shards(job: Job, how: str) -> Iterator[Epoch]:
    """Yield torch's DataLoader, which makes the batches, over a WebDataset."""
    from torch.utils.data import DataLoader

    dataset = _webdataset(job, how)
    made: Any = DataLoader(
        dataset,
        batch_size=job.batch_size,
        drop_last=True,
        num_workers=job.workers,
        persistent_workers=True,
    )
    yield lambda number: made


@contextmanager
def nodes(job: Job, how: str) -> Iterator[Epoch]:
    """Yield torchdata.nodes with whole batches a thread, as its guide from DataLoader has it."""
    from torch.utils.data import RandomSampler
    from torchdata import nodes as nd

    pictures: Any = Pictures(job, how)
    node: Any = nd.SamplerWrapper(RandomSampler(pictures))
    node = nd.Batcher(node, batch_size=job.batch_size, drop_last=True)
    workers: dict[str, Any] = {"num_workers": job.workers, "method": "thread"}
    node = nd.ParallelMapper(node, pictures.batch, **workers)
    loader = nd.Loader(nd.Prefetcher(node, prefetch_factor=2))
    yield lambda number: loader


# -- others ----------------------------------------------------------------------------


@contextmanager
def spdl(job: Job, how: str, batches: bool) -> Iterator[Epoch]:
    """Yield SPDL's pipeline, made anew for each epoch, handing over pictures or whole batches."""
    from spdl.pipeline import PipelineBuilder

    one = partial(loaded, how=how, size=job.size)

    def batch(files: list[tuple[str, int]]) -> Any:
        return stacked_tensors([one(file) for file in files])

    def epoch(number: int) -> Iterator[Any]:
        builder: Any = PipelineBuilder().add_source(job.shuffled(number))
        if batches:
            builder = builder.aggregate(job.batch_size, drop_last=True)
            builder = builder.pipe(batch, concurrency=job.workers)
        else:
            builder = builder.pipe(one, concurrency=job.workers)
            builder = builder.aggregate(job.batch_size, drop_last=True).pipe(stacked_tensors)
        pipeline = builder.add_sink().build(num_threads=job.workers + (not batches))
        with pipeline.auto_stop():
            yield from pipeline

    yield epoch


@contextmanager
def webdataset(job: Job, how: str) -> Iterator[Epoch]:
    """Yield WebDataset's WebLoader with a worker process a core, kept between epochs."""
    import webdataset as wds

    dataset = _webdataset(job, how).batched(job.batch_size, collation_fn=stacked_tensors)
    made = wds.WebLoader(dataset, batch_size=None, num_workers=job.workers, persistent_workers=True)
    yield lambda number: made


def _webdataset(job: Job, how: str) -> Any:
    import webdataset as wds

    dataset = wds.WebDataset(list(job.shards), shardshuffle=len(job.shards))
    return dataset.shuffle(1000).map(partial(_from_shard, how, job.size))


def _from_shard(how: str, size: int, sample: dict[str, Any]) -> Any:
    return made(sample["jpg"], how, size), int(sample["cls"])


@contextmanager
def grain(job: Job, how: str, processes: bool) -> Iterator[Epoch]:
    """Yield Grain's dataset, made anew for each epoch, read by threads or by processes."""
    import grain as gr

    def epoch(number: int) -> Iterator[Any]:
        files: Any = gr.MapDataset.source(job.listed()).seed(number).shuffle()
        pictures = files.map(partial(loaded, how=how, size=job.size))
        if not processes:
            made = pictures.to_iter_dataset(gr.ReadOptions(num_threads=job.workers))
            return iter(made.batch(job.batch_size, drop_remainder=True))
        batches = pictures.batch(job.batch_size, drop_remainder=True)
        reading = gr.ReadOptions(num_threads=1, prefetch_buffer_size=2)
        spread = gr.MultiprocessingOptions(num_workers=job.workers)
        return iter(batches.to_iter_dataset(reading).mp_prefetch(spread))

    yield epoch
