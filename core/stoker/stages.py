"""The stage contract: what every plugin that handles data implements.

A stage is a frozen dataclass; its fields are its parameters. So a pipeline can
be printed, compared, saved and rebuilt in another process. A stage holds no
state of its own: what it opens (handles, decoders) lives in `open`, once per
worker. The families, in the order in which data flows:

    Source | StreamSource   gives samples                 (read)
    Map | Expand | Mix      one sample at a time          (decode, augment, ...)
    Gather                  makes batches                 (collate)
    BatchMap                whole batches                 (pin, copy, ...)
    Step                    consumes batches              (step), see `session.py`

These are base classes with defaults, so that a new method never breaks an old
plugin. A new stage subclasses one, is decorated `@dataclass(frozen=True)`, and
sets `name` ("acme.blur") and, where the family leaves it open, `kind`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from stoker.errors import SampleError, UsageError
from stoker.parameters import param
from stoker.rng import Rng
from stoker.sample import Address, Batch, Origin, Sample, Shard

if TYPE_CHECKING:
    import torch

    from stoker.region import Region

Resource = Literal["io", "cpu", "device"]
Executor = Literal["auto", "inline", "thread", "process"]
Use = Literal["none", "part", "whole"]
Alloc = Callable[[tuple[int, ...], "torch.dtype"], "torch.Tensor"]
"""Gives memory for one tensor of a batch, by shape and dtype: where the plan wants it."""


def undefined(self: object, method: str) -> UsageError:
    """Return the error for a method that a plugin's class should have defined."""
    return UsageError(f"{type(self).__module__}.{type(self).__name__} must define {method}()")


class Caution(str):
    """A plan-time remark that warns and does not refuse (see `Stage.check`)."""

    __slots__ = ()


@dataclass(frozen=True)
class Surroundings:
    """What a stage can know of its pipeline when it is checked."""

    stages: tuple[Stage, ...]
    """All stages, in order, with those that the plan put in."""
    index: int
    """The place of the stage that is asked."""
    device: str = "cpu"
    """Where the step runs: a torch device type."""

    def before(self) -> tuple[Stage, ...]:
        """Return the stages upstream of the one that is asked."""
        return self.stages[: self.index]


@dataclass(frozen=True)
class Worker:
    """Who opens a stage: worker `index` of `count`, run by `executor`."""

    stage: str = ""
    index: int = 0
    count: int = 1
    executor: Executor = "inline"


@dataclass(frozen=True)
class Stage:
    """What all stages share: an address, a kind, the resource they live on, checks."""

    name: ClassVar[str] = ""
    """`namespace.variant`, the address on the command line."""
    kind: ClassVar[str] = ""
    """What the stage does in the chain; the short address where it is the only one."""
    resource: ClassVar[Resource] = "cpu"
    """What it waits for or burns: neighbours on other resources get workers of their own."""
    companion: ClassVar[bool] = False
    """It serves another stage of its kind, so the bare kind addresses that one."""
    example: ClassVar[str] = ""
    """One line that shows its use; `stoker stages NAME` prints it."""

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield what is wrong with this stage here; a `Caution` only warns.

        Called before anything starts, so that all problems show at once: look at
        parameters and paths, open nothing that stays open, and do not raise.
        """
        return ()

    def __getstate__(self) -> dict[str, Any]:
        # Only parameters travel to other processes; what was cached stays here.
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


@dataclass(frozen=True, kw_only=True)
class PooledStage(Stage):
    """A stage that any number of workers can run at once."""

    num_workers: int | Literal["auto"] = param(
        "auto", "workers that run this stage; auto: by resource and cores", minimum=1
    )
    executor: Executor = param(
        "auto", "where it runs: inline in the consumer, in threads, in processes"
    )


@dataclass(frozen=True)
class Source(PooledStage):
    """Random access: local files, indexed shards, datasets."""

    kind: ClassVar[str] = "read"
    resource: ClassVar[Resource] = "io"

    def addresses(self, epoch: int, rng: Rng) -> Sequence[Address]:
        """Return this epoch's order, one address a sample: cheap, and equal every time.

        `rng` stands at (epoch, position 0). A million addresses should be a packed
        array (`range`, `array`, NumPy), not a list of objects.
        """
        raise undefined(self, "addresses")

    def read(self, address: Address) -> Sample:
        """Return the sample at `address`; called by any worker, many at once."""
        raise undefined(self, "read")

    def origin(self, address: Address) -> Origin:
        """Return where `address` lies, to name it when reading it fails."""
        return Origin(key=str(address))

    def content(self) -> str:
        """Return a text that changes when the data does, such as of sizes and times of files.

        A cache on disk is taken for other data by it. Default: only the parameters tell.
        """
        return ""

    @contextmanager
    def open(self, worker: Worker) -> Iterator[Callable[[Address], Sample]]:
        """Hold resources for one worker, in it; yield what reads an address."""
        yield self.read


@dataclass(frozen=True, kw_only=True)
class StreamSource(PooledStage):
    """What can only be streamed: read once, in order, shard after shard."""

    kind: ClassVar[str] = "read"
    resource: ClassVar[Resource] = "io"
    shuffle_window: int = param(
        0,
        "samples held back, from which the next one is drawn; 0: in the stream's order",
        minimum=0,
    )

    def shards(self, epoch: int, rng: Rng) -> Sequence[Shard]:
        """Return this epoch's shards in order: cheap, and equal every time."""
        raise undefined(self, "shards")

    def stream(self, shard: Shard) -> Iterator[Sample | SampleError]:
        """Yield the samples of one shard, in an order that is equal every time.

        A `SampleError` in a sample's place is judged as that sample's failure, and the shard
        goes on. One that is raised ends the shard.
        """
        raise undefined(self, "stream")

    @contextmanager
    def open(self, worker: Worker) -> Iterator[Callable[[Shard], Iterator[Sample | SampleError]]]:
        """Hold resources for one worker, in it; yield what streams a shard."""
        yield self.stream


@dataclass(frozen=True)
class Map(PooledStage):
    """One sample in, one out."""

    drops: ClassVar[bool] = False
    """It may return None, which drops the sample (counted as filtered). Where it is
    False a None is an error: mostly a forgotten `return`. May be a property."""
    deterministic: ClassVar[bool] = False
    """The same sample gives the same result in every epoch: it draws nothing. Only what such
    stages make can be cached. May be a property."""

    def apply(self, sample: Sample, rng: Rng) -> Sample | None:
        """Return the sample changed. It may be changed in place; its arrays may not,
        since a cache may hold them too. `rng` is valid during the call only."""
        raise undefined(self, "apply")

    def use_of(self, field: str) -> Use:
        """Return what this stage uses of the picture in a field, so that it need not be decoded
        whole: "none" (it neither reads nor changes it), "part" (`region` tells which), "whole"."""
        return "whole"

    def region(self, field: str, height: int, width: int, rng: Rng) -> Region | None:
        """Return the part that this stage will use of a picture (see `stoker.region`).

        Called before the picture is decoded, with a generator that draws what `apply` will
        draw; `apply` then finds the part by `take_part`. None: all of the picture.
        """
        raise undefined(self, "region")

    @contextmanager
    def open(self, worker: Worker) -> Iterator[Callable[[Sample, Rng], Sample | None]]:
        """Hold resources for one worker, in it; yield the function to call."""
        yield self.apply


@dataclass(frozen=True)
class Expand(PooledStage):
    """One sample in, many out: crops of a volume, clips of a video."""

    def apply(self, sample: Sample, rng: Rng) -> Iterable[Sample]:
        """Return the samples made of this one; none of them counts it as filtered.

        The iterable is consumed within the call, in the same worker.
        """
        raise undefined(self, "apply")

    @contextmanager
    def open(self, worker: Worker) -> Iterator[Callable[[Sample, Rng], Iterable[Sample]]]:
        """Hold resources for one worker, in it; yield the function to call."""
        yield self.apply


@dataclass(frozen=True)
class Mix(PooledStage):
    """Also sees other samples of the epoch, drawn by seeded position (mosaic, copy-paste).

    The others are read and taken through the stages upstream again, by the worker
    that needs them, so they look as they do at their own place in the epoch.
    """

    def partners(self, population: int, rng: Rng) -> Sequence[int]:
        """Return the positions, each in [0, population), of the samples to see. Default: one."""
        return [rng.random.randrange(population)]

    def apply(self, sample: Sample, others: Sequence[Sample], rng: Rng) -> Sample:
        """Return the sample mixed with the others (fewer than asked for where some were
        filtered). `rng` is seeded apart from the one of `partners`."""
        raise undefined(self, "apply")

    @contextmanager
    def open(self, worker: Worker) -> Iterator[Callable[[Sample, Sequence[Sample], Rng], Sample]]:
        """Hold resources for one worker, in it; yield the function to call."""
        yield self.apply


@dataclass(frozen=True)
class Gather(PooledStage):
    """Makes batches: the decision is ordered and cheap, the work runs on any worker."""

    kind: ClassVar[str] = "collate"

    def size(self, sample: Sample) -> Any:
        """Return what the decision needs to know of a sample (JSON-able). Default: 1."""
        return 1

    def group(self, sizes: Sequence[Any], more: bool) -> Sequence[Sequence[int]]:
        """Return the batches to make now, as lists of indices into `sizes`.

        `sizes` are those of the samples that wait, in order. With `more` they may be
        few: indices in no batch go on waiting. Without, the epoch ended and they are
        its dropped tail. Called whenever samples arrive, singly or by the hundred:
        the batches must come out the same, so decide greedily, front to back.
        """
        raise undefined(self, "group")

    def batches(self, samples: int) -> int | None:
        """Return how many batches `samples` samples make, or None where it depends on them."""
        return None

    def assemble(self, samples: Sequence[Sample], alloc: Alloc) -> Batch:
        """Return the batch, its tensors written into memory from `alloc`."""
        raise undefined(self, "assemble")

    @contextmanager
    def open(self, worker: Worker) -> Iterator[Callable[[Sequence[Sample], Alloc], Batch]]:
        """Hold resources for one worker, in it; yield the function to call."""
        yield self.assemble


@dataclass(frozen=True)
class BatchMap(PooledStage):
    """Whole batches, on the host or on the device in stream order (`resource = "device"`)."""

    def apply(self, batch: Batch, rng: Rng) -> Batch:
        """Return the batch changed. `rng` stands at the batch's number in the epoch."""
        raise undefined(self, "apply")

    @contextmanager
    def open(self, worker: Worker) -> Iterator[Callable[[Batch, Rng], Batch]]:
        """Hold resources for one worker, in it; yield the function to call."""
        yield self.apply


SAMPLE_STAGES = (Map, Expand, Mix)
"""The families that work on one sample at a time."""
