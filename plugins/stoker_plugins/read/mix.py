"""Several sources in one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

from stoker.errors import UsageError
from stoker.parameters import faults, param
from stoker.rng import Rng
from stoker.sample import KEY, Address, Origin, Sample, fields_of
from stoker.stages import Caution, Source, Surroundings, Worker
from stoker_plugins.read.mixed import mixed
from stoker_plugins.read.nested import Nesting, checked, inner
from stoker_plugins.read.proportions import exact, quotas, spread

# Of positions in an epoch: the order is held in memory, at some 40 bytes each while it is made.
_MOST = 1_000_000_000


@dataclass(frozen=True, eq=False, repr=False)
class Mix(Nesting):
    """Mixes several sources: each position of an epoch takes the next sample of one of them.

    Shares are exact: among the N positions of an epoch a source has its share of N, rounded
    up or down, and they are spread evenly (of the first t, less than 1 + share * number of
    sources away from share * t). Each source keeps its own order; one that is used up is
    gone through again, in another order where it shuffles. When the epoch ends, `stop` says.

    A key is led by its source's name, so that samples of equal key stay apart:
    `photos/cat/001`. `tag` adds a field that holds the source's number. Samples pass as
    they are, of whatever fields; `fields` sees to it that all have the same.
    """

    name: ClassVar[str] = "read.mix"
    example: ClassVar[str] = 'read.Mix([read.Files("a"), read.Files("b")], weights=(3, 1))'

    sources: tuple[Source, ...] = param(help="sources of random access")
    weights: tuple[float, ...] | None = param(
        None, "share of each source; None: as many samples as it has", minimum=0
    )
    names: tuple[str, ...] | None = param(None, "of the sources, in keys; None: 0, 1 and so on")
    stop: Literal["first", "longest", "repeat"] = param(
        "first",
        "end of an epoch; first: before any sample would come twice; longest: when every sample "
        "came; repeat: after samples_per_epoch",
    )
    samples_per_epoch: int | None = param(
        None, "with stop='repeat'; None: as many as all sources have", minimum=1
    )
    fields: tuple[str, ...] | None = param(
        None, "that every sample must have, others being left out; None: samples as they are"
    )
    tag: str | None = param(None, "field for the number of a sample's source; None: no such field")

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield what is wrong with the sources, else with how they are mixed."""
        if any(faults(self)):
            return
        remarks = list(self._problems())
        for number, source in enumerate(self.sources):
            remarks += checked(source, f"sources[{number}]", around)
        yield from remarks
        if all(isinstance(remark, Caution) for remark in remarks):
            fault = self._order_fault()
            if fault:
                yield fault

    def addresses(self, epoch: int, rng: Rng) -> Sequence[Address]:
        """Return this epoch's order: pairs of a source's number and its address.

        Raises:
            UsageError: what is wrong with the parameters, or a source without samples.
        """
        problems = list(self._problems())
        if problems:
            raise UsageError("; ".join(problems))

        def turn(number: int, turn: int) -> Sequence[Address]:
            return self.sources[number].addresses(epoch, inner(rng, epoch, number, turn))

        first = [turn(number, 0) for number in range(len(self.sources))]
        sizes = [len(order) for order in first]
        for name, size in zip(self._names, sizes, strict=True):
            if not size:
                raise UsageError(f"source {name!r} has no samples; leave it out")
        shares = exact(sizes if self.weights is None else self.weights)
        counts = quotas(shares, self._length(sizes, shares), rng)
        who = spread(counts, rng)
        return mixed(who, len(sizes), lambda i, n: turn(i, n) if n else first[i])

    def origin(self, address: Address) -> Origin:
        """Return where the sample lies in its source, its key as the sample has it."""
        number, own = _parts(address)
        origin = self.sources[number].origin(own)
        return origin._replace(key=self._key(number, origin.key))

    def content(self) -> str:
        """Return what tells the data of all sources."""
        return "\n".join(source.content() for source in self.sources)

    @contextmanager
    def open(self, worker: Worker) -> Iterator[Callable[[Address], Sample]]:
        """Open all sources; yield what reads an address of any."""
        # Sources share bounds such as on open files among all who read, here a worker each.
        many = dataclasses.replace(worker, count=worker.count * len(self.sources))
        with ExitStack() as stack:
            readers = [stack.enter_context(source.open(many)) for source in self.sources]

            def read(address: Address) -> Sample:
                number, own = _parts(address)
                # A copy: what a source gives may be its own.
                return self._marked(number, dict(readers[number](own)))

            yield read

    @property
    def _names(self) -> tuple[str, ...]:
        return self.names or tuple(map(str, range(len(self.sources))))

    def _key(self, number: int, key: Any) -> str | None:
        return None if key is None else f"{self._names[number]}/{key}"

    def _marked(self, number: int, sample: Sample) -> Sample:
        key = self._key(number, sample.get(KEY))
        if key is not None:
            sample[KEY] = key
        if self.fields is not None:
            own = fields_of(sample)
            missing = [field for field in self.fields if field not in own]
            if missing:
                raise ValueError(
                    f"sample {key!r} of source {self._names[number]!r} "
                    f"({self.sources[number].name}) lacks {', '.join(missing)}; its fields: "
                    f"{', '.join(own) or 'none'}; read them under one name, or name in fields "
                    "only those that all sources have"
                )
            for field in own:
                if field not in self.fields:
                    del sample[field]
        if self.tag is not None:
            if self.tag in sample:
                raise ValueError(
                    f"tag={self.tag!r}: sample {key!r} has such a field already; take another name"
                )
            sample[self.tag] = number
        return sample

    def _length(self, sizes: Sequence[int], shares: Sequence[Fraction]) -> int:
        """Return the positions of an epoch."""
        ends = [size / share for size, share in zip(sizes, shares, strict=True) if share]
        if self.stop == "first":
            return int(min(ends))
        if self.stop == "repeat":
            return self.samples_per_epoch or sum(sizes)
        length = math.ceil(max(ends))
        if length > _MOST:
            raise UsageError(
                f"stop='longest' takes an epoch of {length:,} positions, until the source of the "
                f"least weight for its samples is through; raise its weight, or use stop='repeat'"
            )
        return length

    def _problems(self) -> Iterator[str]:
        count = len(self.sources)
        if not count:
            yield "sources is empty; name at least one source"
        for name, given in (("weights", self.weights), ("names", self.names)):
            if given is not None and len(given) != count:
                yield f"{name} has {len(given)} entries for {count} sources; give one for each"
        if self.weights is not None and not all(
            0 < weight < float("inf") for weight in self.weights
        ):
            yield f"weights={self.weights}: allowed are finite numbers above 0; leave others out"
        if self.names is not None:
            if len(set(self.names)) < len(self.names) or not all(self.names):
                yield f"names={self.names}: allowed are different names"
            if any("/" in name for name in self.names):
                yield f"names={self.names}: a name may hold no '/', which parts it from the key"
        if self.samples_per_epoch is not None and self.stop != "repeat":
            yield (
                f"samples_per_epoch={self.samples_per_epoch} needs stop='repeat', not {self.stop!r}"
            )


def _parts(address: Any) -> tuple[int, Address]:
    number, own = address
    return number, own
