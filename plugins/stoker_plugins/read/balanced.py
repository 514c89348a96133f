"""Samples by class, each class as often as it should come."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy
from numpy.typing import NDArray

from stoker.errors import UsageError, describe_given, unknown_name
from stoker.parameters import param
from stoker.rng import Rng
from stoker.sample import Address, plain
from stoker_plugins.read.listing import PackedPaths
from stoker_plugins.read.nested import Reordering
from stoker_plugins.read.persample import by_place, mark
from stoker_plugins.read.picked import pick
from stoker_plugins.read.proportions import exact, occurrences, quotas, spread, turns

FOLDER = "folder"


@dataclass(frozen=True, eq=False, repr=False)
class Balanced(Reordering):
    """Gives each class of another source equally often, or by given weights of classes.

    The counts are exact and no expectation: in an epoch two classes of equal weight differ
    by one sample at most (who is rounded up is drawn). Classes are spread evenly, so that
    every batch is near balance too. Within a class all samples come once, in an order
    drawn, before any comes again. A class that is larger than its share gives other
    samples in each epoch.
    """

    name: ClassVar[str] = "read.balanced"
    example: ClassVar[str] = 'read.Balanced(read.Files("photos/train"))'

    label: Any = param(
        FOLDER,
        "what tells a sample's class: its folder (of read.Files), a list or an array of one label "
        "a sample, a .npy file, or a function of the address",
    )
    class_weights: Mapping[Any, float] | None = param(
        None,
        "how often each class comes, by label (of folders: number or name); 0: never. None: "
        "equally often",
    )
    samples_per_epoch: int | None = param(
        None, "samples in an epoch; None: as many as the source has", minimum=1
    )

    def remarks(self) -> Iterator[str]:
        """Yield what is wrong with labels and weights."""
        if self._by_place:
            yield from self.unsteady("label")

    def addresses(self, epoch: int, rng: Rng) -> Sequence[Address]:
        """Return this epoch's order.

        Raises:
            UsageError: labels are not one a sample, or weights name other classes.
        """
        base = self.base(epoch, rng)
        if not len(base):
            return base
        labels, codes = coded(self._labels(base))
        shares = exact(self._class_weights(labels))
        counts = quotas(shares, self.samples_per_epoch or len(base), rng)
        who = spread(counts, rng)
        numbers = numpy.empty(len(who), numpy.int64)
        members = occurrences(codes, len(labels))
        for places, own in zip(occurrences(who, len(labels)), members, strict=True):
            numbers[places] = turns(own, len(places), rng)
        return pick(base, numbers)

    def content(self) -> str:
        """Return what tells the source's data, and the file of labels."""
        return f"{self.source.content()} {mark(self.label) if self._by_place else ''}"

    @property
    def _by_folder(self) -> bool:
        return isinstance(self.label, str) and self.label == FOLDER

    @property
    def _by_place(self) -> bool:
        return not self._by_folder and by_place(self.label)

    def _labels(self, base: Sequence[Address]) -> Any:
        if not self._by_folder:
            return self.values(self.label, base, "label")
        if isinstance(base, PackedPaths):
            return base.class_numbers()
        first = plain(base[0])
        if not (isinstance(first, tuple) and len(first) == 2 and isinstance(first[1], str)):
            raise UsageError(
                f"label={FOLDER!r}: {self.source.name} has no class folders (its addresses are "
                f"such as {describe_given(first)}); give labels: a list, one a sample, or a "
                "function of the address"
            )
        pairs: Any = base
        return [number for number, _ in pairs]

    def _class_weights(self, labels: Sequence[Any]) -> list[float]:
        if self.class_weights is None:
            return [1.0] * len(labels)
        given = self._by_number(self.class_weights)
        present = set(labels)
        missing = [label for label in labels if label not in given]
        unknown = [label for label in given if label not in present]
        if unknown:
            known = [str(label) for label in labels]
            raise UsageError(
                "class_weights: " + unknown_name("class", str(unknown[0]), known, "the source")
            )
        if missing:
            raise UsageError(
                f"class_weights has none for class {describe_given(missing[0])} ({len(missing)} of "
                f"{len(labels)} classes); give one for each, 0 for those that should not come"
            )
        weights: list[Any] = [given[label] for label in labels]
        for label, weight in zip(labels, weights, strict=True):
            if not (isinstance(weight, (int, float, numpy.number)) and 0 <= weight < math.inf):
                raise UsageError(
                    f"class_weights of class {describe_given(label)} is {describe_given(weight)}: "
                    "allowed are finite numbers of at least 0"
                )
        if not any(weights):
            raise UsageError("class_weights are all 0, so that no sample could be drawn")
        return weights

    def _by_number(self, given: Mapping[Any, float]) -> Mapping[Any, float]:
        """Return weights by label, those that name folders by the folders' numbers."""
        names = getattr(self.source, "classes", ()) if self._by_folder else ()
        numbers = {name: number for number, name in enumerate(names)}
        return {numbers.get(label, label): weight for label, weight in given.items()}


def coded(values: Any) -> tuple[list[Any], NDArray[Any]]:
    """Return the different labels, sorted, and each sample's as an index into them."""
    if isinstance(values, numpy.ndarray):
        labels, codes = numpy.unique(values, return_inverse=True)
        return labels.tolist(), codes
    seen: dict[Any, int] = {}
    try:
        found = [seen.setdefault(plain(value), len(seen)) for value in values]
        labels_seen = list(seen)
    except (TypeError, ValueError) as error:
        raise UsageError(f"label: a label must be a number or text: {error}") from None
    try:
        ranks = sorted(range(len(labels_seen)), key=lambda i: labels_seen[i])
    except TypeError:  # of several types, as numbers and text
        ranks = sorted(range(len(labels_seen)), key=lambda i: repr(labels_seen[i]))
    place = numpy.empty(len(ranks), numpy.int64)
    place[ranks] = numpy.arange(len(ranks))
    return [labels_seen[i] for i in ranks], place[numpy.asarray(found)]
