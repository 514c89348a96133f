"""Four no-op map stages over integers, as each library would have them.

A contestant is a context manager: it takes a number of items and yields an iterable of
them, to be exhausted by a plain `for` loop. Peers are imported when they are opened, so
that one which is not installed can be left out. Where a peer's documentation offers a
setting that makes small items cheaper, it is used or stands beside as one of its own.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from stoker import Pipeline
from stoker.rng import Rng
from stoker.sample import Sample
from stoker.stages import Executor, Map
from stoker_plugins import read

STAGES = 4
BUFFER = 64


def same(item: Any) -> Any:
    """Return the item: what a stage costs when it does nothing."""
    return item


@dataclass(frozen=True)
class Same(Map):
    """Returns its sample."""

    name: ClassVar[str] = "bench.same"
    kind: ClassVar[str] = "augment"
    example: ClassVar[str] = "Same()"

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        """Return the sample."""
        return sample


@dataclass(frozen=True)
class Contestant:
    """One way to run the four stages."""

    name: str
    settings: str
    open: Callable[[int], AbstractContextManager[Iterable[Any]]]
    needs: tuple[str, ...] = ()
    """Packages that it imports."""
    least: int = 64
    """Items of a round at least: many more than it can have ready when the first one comes."""


# -- by hand -------------------------------------------------------------------------


@contextmanager
def plain_loop(n: int) -> Iterator[Iterable[Any]]:
    """Yield what a loop without any library gives."""
    yield (same(same(same(same(item)))) for item in range(n))


@contextmanager
def queue_per_stage(n: int) -> Iterator[Iterable[Any]]:
    """Yield what comes out of a chain of threads, each with a bounded queue behind it."""
    end = object()
    incoming: Iterable[Any] = range(n)
    threads = []
    for _ in range(STAGES):
        outgoing: queue.Queue[Any] = queue.Queue(BUFFER)
        threads.append(threading.Thread(target=_stage, args=(incoming, outgoing, end), daemon=True))
        incoming = iter(outgoing.get, end)
    for thread in threads:
        thread.start()
    yield incoming
    for thread in threads:
        thread.join()


def _stage(incoming: Iterable[Any], outgoing: queue.Queue[Any], end: object) -> None:
    for item in incoming:
        outgoing.put(same(item))
    outgoing.put(end)


@contextmanager
def one_queue(n: int) -> Iterator[Iterable[Any]]:
    """Yield what one thread that runs all four stages hands over in lists."""
    lists: queue.Queue[list[Any] | None] = queue.Queue(BUFFER)

    def work() -> None:
        for start in range(0, n, BUFFER):
            items = range(start, min(start + BUFFER, n))
            lists.put([same(same(same(same(item)))) for item in items])
        lists.put(None)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield (item for items in iter(lists.get, None) for item in items)
    thread.join()


# -- torch ---------------------------------------------------------------------------


class Numbers:
    """A map-style dataset that applies the four stages in `__getitem__`."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> int:
        item: int = same(same(same(same(index))))
        return item


@contextmanager
def dataloader(n: int) -> Iterator[Iterable[Any]]:
    """Yield torch's DataLoader, item by item, in this process."""
    from torch.utils.data import DataLoader

    yield DataLoader(Numbers(n), batch_size=None, collate_fn=same)  # type: ignore[arg-type]


def _mappers(n: int) -> Any:
    from torchdata import nodes

    node: Any = nodes.IterableWrapper(range(n))
    for _ in range(STAGES):
        node = nodes.Mapper(node, same)
    return node


@contextmanager
def mapper(n: int) -> Iterator[Iterable[Any]]:
    """Yield chained Mappers in a Loader."""
    from torchdata import nodes

    yield nodes.Loader(_mappers(n))


@contextmanager
def mapper_bare(n: int) -> Iterator[Iterable[Any]]:
    """Yield the last of chained Mappers, reset by hand."""
    node = _mappers(n)
    node.reset()
    yield node


@contextmanager
def prefetcher(n: int) -> Iterator[Iterable[Any]]:
    """Yield chained Mappers that a Prefetcher's thread runs."""
    from torchdata import nodes

    yield nodes.Loader(
        nodes.Prefetcher(_mappers(n), prefetch_factor=BUFFER, snapshot_frequency=BUFFER)
    )


def _parallel(**more: Any) -> Callable[[int], AbstractContextManager[Iterable[Any]]]:
    @contextmanager
    def opened(n: int) -> Iterator[Iterable[Any]]:
        from torchdata import nodes

        node: Any = nodes.IterableWrapper(range(n))
        for _ in range(STAGES):
            node = nodes.ParallelMapper(
                node, same, num_workers=2, method="thread", snapshot_frequency=BUFFER, **more
            )
        yield nodes.Loader(node)

    return opened


# -- others --------------------------------------------------------------------------


def _spdl(aggregate: int) -> Callable[[int], AbstractContextManager[Iterable[Any]]]:
    @contextmanager
    def opened(n: int) -> Iterator[Iterable[Any]]:
        from spdl.pipeline import PipelineBuilder

        def whole(items: Sequence[Any]) -> list[Any]:
            return [same(item) for item in items]

        builder: Any = PipelineBuilder().add_source(range(n))
        if aggregate:
            builder = builder.aggregate(aggregate)
        for _ in range(STAGES):
            builder = builder.pipe(whole if aggregate else same)
        if aggregate:
            builder = builder.disaggregate()
        pipeline = builder.add_sink().build(num_threads=STAGES)
        with pipeline.auto_stop():
            yield pipeline

    return opened


def _grain(threads: int) -> Callable[[int], AbstractContextManager[Iterable[Any]]]:
    @contextmanager
    def opened(n: int) -> Iterator[Iterable[Any]]:
        import grain

        dataset: Any = grain.MapDataset.range(n)
        for _ in range(STAGES):
            dataset = dataset.map(same)
        yield dataset.to_iter_dataset(grain.ReadOptions(num_threads=threads))

    return opened


@contextmanager
def webdataset_maps(n: int) -> Iterator[Iterable[Any]]:
    """Yield WebDataset's chained generators, without shards."""
    import webdataset

    maps = [webdataset.map(same) for _ in range(STAGES)]
    yield webdataset.DataPipeline(lambda: iter(range(n)), *maps)


# -- Stoker --------------------------------------------------------------------------


def _stoker(executor: Executor) -> Callable[[int], AbstractContextManager[Iterable[Any]]]:
    @contextmanager
    def opened(n: int) -> Iterator[Iterable[Any]]:
        stages = [Same(executor=executor) for _ in range(STAGES)]
        with Pipeline("overhead", read.Dataset(range(n), executor=executor), *stages) as loader:
            yield loader

    return opened


TORCHDATA = ("torch", "torchdata")

CONTESTANTS = (
    Contestant("plain loop", "four calls in a generator", plain_loop),
    Contestant("queue per stage", f"4 threads, queue.Queue({BUFFER})", queue_per_stage),
    Contestant("one queue, 64 a hand-over", f"1 thread, lists of {BUFFER}", one_queue),
    Contestant(
        "torch DataLoader, no workers",
        "batch_size=None, collate_fn that returns its item",
        dataloader,
        ("torch",),
    ),
    Contestant("torchdata.nodes Mapper", "4 chained, in a Loader", mapper, TORCHDATA),
    Contestant(
        "torchdata.nodes Mapper, no Loader", "4 chained, last node iterated", mapper_bare, TORCHDATA
    ),
    Contestant(
        "torchdata.nodes Prefetcher",
        f"4 Mappers, prefetch_factor={BUFFER}, snapshot_frequency={BUFFER}, in a Loader",
        prefetcher,
        TORCHDATA,
    ),
    Contestant(
        "torchdata.nodes ParallelMapper",
        f'4 chained, num_workers=2, method="thread", snapshot_frequency={BUFFER}, in a Loader',
        _parallel(),
        TORCHDATA,
    ),
    Contestant(
        "torchdata.nodes ParallelMapper, prebatch",
        f"as above, with prebatch={BUFFER} in each",
        _parallel(prebatch=BUFFER),
        TORCHDATA,
    ),
    Contestant("spdl", "4 pipes, num_threads=4", _spdl(0), ("spdl",)),
    Contestant(
        "spdl, aggregated",
        f"as above, between aggregate({BUFFER}) and disaggregate()",
        _spdl(BUFFER),
        ("spdl",),
        least=50 * BUFFER,
    ),
    Contestant(
        "grain", "MapDataset, num_threads=0 as advised for data in memory", _grain(0), ("grain",)
    ),
    Contestant(
        "grain, 16 threads",
        "MapDataset, read options by default",
        _grain(16),
        ("grain",),
        least=5000,
    ),
    Contestant("webdataset maps", "DataPipeline, 4 maps", webdataset_maps, ("webdataset",)),
    Contestant("stoker inline", 'executor="inline", metered', _stoker("inline")),
    Contestant("stoker threads", "as planned by default, metered", _stoker("auto")),
)
