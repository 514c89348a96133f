"""Other people's iterable datasets, and plain iterables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from stoker.parameters import faults, param
from stoker.rng import Rng
from stoker.sample import Sample, Shard
from stoker.stages import Caution, StreamSource, Surroundings
from stoker_plugins.read.items import Items


@dataclass(frozen=True)
class DatasetStream(StreamSource):
    """Streams what can only be iterated: torch's IterableDataset, generators, files of lines.

    Items become samples as in `read.Dataset`; the key is the item's place in the
    stream. The stream is one shard, so one worker reads it, in its own order.
    """

    name: ClassVar[str] = "read.dataset_stream"
    example: ClassVar[str] = "read.DatasetStream(my_iterable_dataset)"

    dataset: Any = param(help="an iterable that begins anew each time it is iterated")
    fields: tuple[str, ...] | None = param(None, "names for the parts of a tuple item")

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield why the dataset cannot be streamed, or cannot be streamed twice."""
        if any(faults(self)):
            return
        given = f"dataset, of type {type(self.dataset).__name__},"
        if not hasattr(type(self.dataset), "__iter__"):
            yield f"{given} has no __iter__, so it is no iterable"
        elif isinstance(self.dataset, (str, bytes)):
            yield f"{given} is text, not a dataset"
        elif hasattr(type(self.dataset), "__next__"):
            yield Caution(
                f"{given} is an iterator and lasts for one epoch; give an object whose __iter__ "
                "begins anew"
            )

    def shards(self, epoch: int, rng: Rng) -> Sequence[Shard]:
        """Return the one shard that the whole stream is."""
        return (type(self.dataset).__name__,)

    def stream(self, shard: Shard) -> Iterator[Sample]:
        """Yield the items as samples.

        Raises:
            ValueError: an iterator that an earlier epoch has used up.
        """
        items = Items(str(shard), self.fields)
        number = -1
        for number, item in enumerate(self.dataset):
            yield items.maker(type(item))(number, item)
        if number < 0 and hasattr(type(self.dataset), "__next__"):
            raise ValueError(
                f"the {type(self.dataset).__name__} is used up: an iterator lasts for one epoch; "
                "give an object whose __iter__ begins anew"
            )
