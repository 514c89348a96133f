"""Sources over other sources: what they share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy

from stoker.errors import StokerError, UsageError
from stoker.parameters import faults, param, shown
from stoker.rng import Rng
from stoker.sample import Address, Origin, Sample, plain
from stoker.stages import Caution, PooledStage, Source, Surroundings, Worker
from stoker_plugins.read.persample import by_place, values_of
from stoker_plugins.read.picked import same

# So many places of two epochs' orders are compared to see whether they differ.
_LOOKS = 64


def inner(rng: Rng, epoch: int, number: int = 0, turn: int = 0) -> Rng:
    """Return the generator of a source inside another, apart from all others at any depth.

    Args:
        rng: the outer source's, where it stands at an epoch's start.
        epoch: that epoch.
        number: of the inner source among its like.
        turn: how often the inner source was gone through in this epoch before.
    """
    return Rng(rng.seed, f"source {number}").move(epoch, 0, turn)


def checked(source: Source, what: str, around: Surroundings) -> Iterator[str]:
    """Yield what is wrong with a source inside another, `what` being its parameter."""
    for fault in faults(source):
        yield f"{what}: {fault}"
    for remark in source.check(around):
        text = f"{what}: {remark}"
        yield Caution(text) if isinstance(remark, Caution) else text
    for field in dataclasses.fields(PooledStage):
        if getattr(source, field.name) != field.default:
            yield Caution(
                f"{what}: {field.name}={getattr(source, field.name)!r} of {source.name} has no "
                "effect there; give it to the source around it"
            )


def reorders(source: Source) -> bool:
    """Say whether a source gives its samples in another order in each epoch, as far as seen."""
    first, second = (
        source.addresses(epoch, Rng(0, source.name).move(epoch, 0)) for epoch in (0, 1)
    )
    if len(first) != len(second):
        return True
    places = numpy.linspace(0, len(first) - 1, min(_LOOKS, len(first))).astype(int).tolist()
    return any(plain(first[place]) != plain(second[place]) for place in places)


@dataclass(frozen=True, eq=False)
class Nesting(Source):
    """A source over others. Two are equal where their parameters are, arrays too."""

    __repr__ = shown
    __hash__: ClassVar[None]  # type: ignore[assignment]  # parameters may be unhashable

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(
            same(getattr(self, field.name), getattr(other, field.name))
            for field in dataclasses.fields(self)
        )

    def read(self, address: Address) -> Sample:
        """Return one sample; `open` is the way to read many."""
        with self.open(Worker()) as read:
            return read(address)

    def _order_fault(self) -> str | None:
        """Return why the first epoch has no order, None where it has one.

        "" where the data are to blame: the source inside has told so in a caution.
        """
        try:
            self.addresses(0, Rng(0, self.name).move(0, 0))
        except UsageError as error:
            return str(error)
        except StokerError:
            return ""
        return None


@dataclass(frozen=True, eq=False, repr=False)
class Reordering(Nesting):
    """A source whose samples are another's, drawn, balanced or repeated.

    An address is the other source's own: what a cache keeps of a sample serves all its
    places in an epoch, and what is drawn for it differs, since that goes by position.
    """

    source: Source = param(help="the source whose samples these are: one of random access")

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield what is wrong with the source inside, else with the order over it."""
        if any(faults(self)):
            return
        fine = True
        for remark in checked(self.source, "source", around):
            fine = fine and isinstance(remark, Caution)
            yield remark
        fault = self._order_fault() if fine else ""
        if fault:
            yield fault
        elif fault is None:
            yield from self.remarks()

    def remarks(self) -> Iterator[str]:
        """Yield what else is wrong where the first epoch has an order."""
        yield from ()

    def unsteady(self, what: str) -> Iterator[str]:
        """Yield that values listed by place, as the parameter `what` has them, belong to none."""
        if reorders(self.source):
            yield (
                f"{what}: the source gives its samples in another order in each epoch, so that "
                f"values listed by place belong to none; leave its shuffle=False ({self.name} "
                "draws an order itself), or give a function of the address"
            )

    def base(self, epoch: int, rng: Rng) -> Sequence[Address]:
        """Return the order that the source inside has in this epoch."""
        return self.source.addresses(epoch, inner(rng, epoch))

    def values(self, given: Any, base: Sequence[Address], what: str) -> Any:
        """Return a value for each address of `base` (see `values_of`).

        A function's values are kept until the source inside has another order.
        """
        if by_place(given):
            return values_of(given, base, what)
        kept: tuple[Any, Any] | None = self.__dict__.get("_kept")
        if kept is None or not same(kept[0], base):
            kept = self.__dict__["_kept"] = base, values_of(given, base, what)
        return kept[1]

    def origin(self, address: Address) -> Origin:
        """Return where the sample lies in the source inside."""
        return self.source.origin(address)

    def content(self) -> str:
        """Return what tells the data of the source inside."""
        return self.source.content()

    @contextmanager
    def open(self, worker: Worker) -> Iterator[Callable[[Address], Sample]]:
        """Open the source inside; yield what reads an address of it."""
        with self.source.open(worker) as read:
            yield read
