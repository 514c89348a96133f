"""The contract of caches: what the stages before one made is kept, and not made again.

A cache stands behind stages that make the same of a sample in every epoch
(`Map.deterministic`). The engine asks its store which of the coming samples it has; those pass
the reading and the stages before the cache by. What the store does not have is made as ever,
and offered to it. One store serves all workers of a loader, in the loader's own process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from stoker.parameters import param
from stoker.sample import Address, Sample, nbytes
from stoker.stages import PooledStage, StreamSource, Surroundings, undefined


class Fed(NamedTuple):
    """What feeds a cache."""

    fingerprint: str
    """Of the source, its data and the stages before the cache: another one, another cache."""
    text: str
    """The same for people: the stages as calls."""


class Store(ABC):
    """Keeps samples by address. Called from many threads at once."""

    @abstractmethod
    def has(self, address: Address) -> bool:
        """Say whether a sample is kept: cheap, since it is asked before every hand-over."""

    @abstractmethod
    def get(self, address: Address) -> Sample | None:
        """Return a sample that is the caller's own (its arrays are read-only), None where it
        cannot be had any more: it is then made again."""

    @abstractmethod
    def put(self, address: Address, sample: Sample) -> None:
        """Keep a sample, if there is room. It goes on downstream: its arrays may not change.

        Raises:
            TypeError: it holds something that cannot be kept.
        """

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes that are kept."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Samples that are kept."""

    def close(self) -> None:  # noqa: B027 - what has nothing to let go of need not define it
        """Let go of files and memory. The default has none."""


@dataclass(frozen=True, kw_only=True)
class Cache(PooledStage):
    """Keeps what the stages before it made."""

    kind: ClassVar[str] = "cache"
    lasting: ClassVar[bool] = False
    """It outlives the loader, so that it has to know what feeds it; else `Fed.fingerprint` is
    empty, since to take it all parameters and the code are read."""

    max_bytes: int | None = param(
        None, "bytes to keep at the most; None: a share of what is free", minimum=1
    )

    def store(self, fed: Fed) -> Store:
        """Return the store for what feeds it, opened: once for a loader."""
        raise undefined(self, "store")

    def budget(self) -> int:
        """Return the bytes that it would keep at the most."""
        raise undefined(self, "budget")

    def nbytes_of(self, sample: Sample) -> int:
        """Return the bytes that a kept sample takes, for the forecast. Default: its buffers'."""
        return nbytes(sample)

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield why what stands before it cannot be cached."""
        first, *rest = around.before() or (self,)
        if isinstance(first, StreamSource):
            yield (
                f"{first.name} is a stream, which is read whether or not a sample is kept: use an "
                "indexed source (read.WebDataset, read.Files)"
            )
        if self.executor == "process":
            yield 'executor="process": a cache is shared by all workers; leave it at auto'
        for stage in rest:
            if isinstance(stage, Cache):
                yield f"{stage.name} stands before it; one cache is enough"
            elif not getattr(stage, "deterministic", False):
                yield (
                    f"{stage.name} may make something else of a sample in every epoch: put the "
                    "cache before it, or declare it deterministic where it draws nothing"
                )
