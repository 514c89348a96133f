"""One naming policy for all shards: what of a member's name is key, what is field.

WebDataset's convention: `a/22.0/0017.seg.png` is field `seg.png` of sample
`a/22.0/0017`. The key ends at the first dot after the last slash, so dots in
folders never split. Fields are lower case. No member of a sample are names
without an extension, those that begin with a dot, and `__meta__` entries.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_META = re.compile(r"__[^/]*__(?:$|/)")


def split(name: str) -> tuple[str, str] | None:
    """Return a member's key and field, or None where it belongs to no sample."""
    folder, slash, base = name.rpartition("/")
    stem, _, extension = base.partition(".")
    if not stem or not extension or _META.match(name):
        return None
    return f"{folder}{slash}{stem}", extension.lower()


def collision(first: str, second: str) -> str:
    """Say that two files or members are one field of one sample."""
    if first == second:
        return f"{first!r} occurs twice; a sample holds each field once"
    return (
        f"{first!r} and {second!r} are one field, since fields are lower case; "
        "rename or remove one of them"
    )


def link(name: str) -> str:
    """Say that a member is a link."""
    return f"{name!r} is a link, which holds no data; write it as a file"


def lacking(required: Sequence[str], seen: Iterable[str], member: str) -> str | None:
    """Say which required fields a sample lacks, or return None.

    Args:
        required: the fields it must have.
        seen: the fields it has.
        member: the key by which it is named.
    """
    seen = sorted(seen)
    missing = [field for field in required if field not in seen]
    if not missing:
        return None
    return (
        f"sample {member!r} lacks required {', '.join(missing)}; "
        f"its members: {', '.join(f'{member}.{field}' for field in seen) or 'none'}"
    )


def fields_in_lower_case(required: Iterable[str]) -> tuple[str, ...]:
    """Return field names as samples have them: `.JPG` is `jpg`."""
    return tuple(field.removeprefix(".").lower() for field in required)


class Placed(NamedTuple):
    """Where a member belongs."""

    key: str
    field: str
    first: bool
    """It begins a sample; the one before it is complete."""
    fault: str | None
    """What is wrong with the sample now, or None."""


class Grouping:
    """Puts the members of one shard, in order, into samples.

    Args:
        shard: what errors call it.
    """

    def __init__(self, shard: str) -> None:
        self._shard = shard
        self._done: set[str] = set()
        self._key: str | None = None
        self._names: dict[str, str] = {}

    def place(self, name: str) -> Placed | None:
        """Return where the next member belongs; None for one that belongs to no sample.

        Raises:
            ValueError: its key came before, with other keys in between.
        """
        parts = split(name)
        if parts is None:
            return None
        key, field = parts
        first = key != self._key
        if first:
            if key in self._done:
                raise ValueError(
                    f"{self._shard}: sample {key!r} returns with {name!r} after {self._key!r}; the "
                    "members of a sample must be neighbours: write the shard again, sorted by key"
                )
            self._done.add(key)
            self._key, self._names = key, {}
        fault = collision(self._names[field], name) if field in self._names else None
        self._names.setdefault(field, name)
        return Placed(key, field, first, fault)
