"""Repeated augmentation: each sample several times in an epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy
from numpy.typing import NDArray

from stoker.parameters import param
from stoker.rng import Rng
from stoker.sample import Address
from stoker.stages import Caution
from stoker_plugins.read.nested import Reordering, reorders
from stoker_plugins.read.picked import pick


@dataclass(frozen=True, eq=False, repr=False)
class Repeated(Reordering):
    """Gives each sample of another source several times, for repeated augmentation.

    Copies draw their augmentations by position, so they differ. `distance` says where they
    are: at 1 next to one another, in one batch (Berman et al., arXiv 1902.05509; Hoffer et
    al., arXiv 1901.09335). At `batch_size` they are at the same place of the batches that
    follow, and so, over at least `times` ranks, in the same step of different ranks, as
    DeiT has it (Touvron et al., arXiv 2012.12877). At the length of the source and above
    the whole epoch is repeated.
    """

    name: ClassVar[str] = "read.repeated"
    example: ClassVar[str] = 'read.Repeated(read.Files("photos/train", shuffle=True), times=3)'

    times: int = param(3, "how often each sample comes", minimum=1)
    distance: int = param(
        1, "positions from one copy to the next; batch_size: in neighbouring batches", minimum=1
    )
    length: Literal["same", "longer"] = param(
        "same",
        "of an epoch; same: that of the source, so that a part of its samples comes; longer: "
        "times that, all its samples come",
    )

    def remarks(self) -> Iterator[str]:
        """Yield what comes of an order that stays the same."""
        if self.length == "same" and self.times > 1 and not reorders(self.source):
            yield Caution(
                "length='same' gives the first part of the source's order, and that is the same "
                f"in every epoch, so that the others never come; set shuffle=True on "
                f"{self.source.name}, or length='longer'"
            )

    def addresses(self, epoch: int, rng: Rng) -> Sequence[Address]:
        """Return the source's order of this epoch, with the copies."""
        base = self.base(epoch, rng)
        count = len(base)
        if self.length == "longer":
            return pick(base, repeats(count, self.times, self.distance))
        needed = -(-count // self.times)
        return pick(base, repeats(needed, self.times, self.distance)[:count])


def repeats(count: int, times: int, distance: int) -> NDArray[Any]:
    """Return the numbers below `count`, each `times` times, its copies `distance` apart.

    The last ones may be fewer than `distance`; their copies are so far apart as they are many.
    """
    whole = count - count % distance
    groups = numpy.arange(whole).reshape(-1, 1, distance)
    rest = numpy.arange(whole, count)
    return numpy.concatenate([groups.repeat(times, 1).reshape(-1), numpy.tile(rest, times)])
