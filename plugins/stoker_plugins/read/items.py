"""How the items of other people's datasets become samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from stoker.sample import Sample

PAIR = ("data", "target")
Make = Callable[[int, Any], Sample]


class Items:
    """Makes samples of items; how, is decided once for each type of item.

    A mapping keeps its fields. A named tuple's fields keep their names; of another
    tuple they are named by `fields`, else `data` and `target` where there are two, else
    "0", "1" and so on. A list is split only where `fields` says so, since it may as
    well be a sequence of tokens. Anything else is the one field `data`.

    Args:
        url: what the samples' `__url__` says.
        fields: names for the parts of each item, or None.
    """

    def __init__(self, url: str, fields: Sequence[str] | None) -> None:
        self._url = url
        self._fields = None if fields is None else tuple(fields)

    def maker(self, kind: type) -> Make:
        """Return what makes a sample of a number and an item of type `kind`.

        Raises:
            TypeError: `fields` names parts, and such items have none to name.
        """
        fields = self._fields
        if issubclass(kind, Mapping):
            if fields is not None:
                raise TypeError(
                    f"items are of type {kind.__name__} with names of their own; leave out "
                    f"fields={fields}"
                )
            return self._of_mapping
        if issubclass(kind, tuple) or (fields is not None and issubclass(kind, list)):
            return self._of_parts(fields or getattr(kind, "_fields", None))
        if fields is None:
            return self._whole("data")
        if len(fields) == 1:
            return self._whole(fields[0])
        raise TypeError(
            f"items are of type {kind.__name__}, which is not split; fields={fields} names "
            f"{len(fields)} parts, allowed is one name"
        )

    def _of_mapping(self, number: int, item: Any) -> Sample:
        return {"__key__": str(number), "__url__": self._url, **item}

    def _of_parts(self, fields: Sequence[str] | None) -> Make:
        url = self._url

        def make(number: int, item: Any) -> Sample:
            names = fields or _names(len(item))
            if len(names) != len(item):
                raise ValueError(
                    f"item {number} has {len(item)} parts, but fields={names} names {len(names)}"
                )
            sample: Sample = {"__key__": str(number), "__url__": url}
            sample.update(zip(names, item, strict=True))
            return sample

        return make

    def _whole(self, field: str) -> Make:
        url = self._url

        def make(number: int, item: Any) -> Sample:
            return {"__key__": str(number), "__url__": url, field: item}

        return make


@cache
def _names(count: int) -> tuple[str, ...]:
    return PAIR if count == len(PAIR) else tuple(map(str, range(count)))


def says_iterable_only(dataset: Any) -> bool:
    """Say whether a dataset is torch's iterable kind, which inherits a `__getitem__` that raises.

    Told by the name of a base class, so that torch need not be imported to ask.
    """
    return any(base.__name__ == "IterableDataset" for base in type(dataset).__mro__)
