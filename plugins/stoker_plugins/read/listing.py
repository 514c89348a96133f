"""A tree of class folders, listed once and packed: a file costs its path and a few bytes."""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy
from numpy.typing import NDArray

from stoker_plugins.read.keys import collision


class Endings:
    """The extensions to read, longest first, so that `nii.gz` goes before `gz`."""

    def __init__(self, extensions: Sequence[str]) -> None:
        self._all = sorted(extensions, key=len, reverse=True)

    def split(self, path: str) -> tuple[str, str] | None:
        """Return a path's key and field, or None where it has no such extension."""
        lower = path.lower()
        for extension in self._all:
            if lower.endswith(extension) and path[-len(extension) - 1 : -len(extension)] == ".":
                return path[: -len(extension) - 1], extension
        return None


@dataclass(frozen=True)
class Listing:
    """What lies under a root, in order: by class, then by path."""

    classes: tuple[str, ...]
    blob: bytes
    ends: memoryview
    """Where each path ends in `blob`, led by a 0."""
    class_of: memoryview
    """The class number of each path."""
    loose: int
    """Matching files that lie in `root` itself, in no class."""
    others: Counter[str]
    """Endings that were seen and are not read."""
    collisions: tuple[str, ...]
    """Files that are one field of one key, said in words."""

    def __len__(self) -> int:
        return len(self.class_of)

    def __getitem__(self, index: int) -> tuple[int, str]:
        path = self.blob[self.ends[index] : self.ends[index + 1]]
        return self.class_of[index], os.fsdecode(path)

    def __getstate__(self) -> dict[str, Any]:
        # A memoryview does not travel to another process; the array under it does.
        state = dict(self.__dict__)
        for name in ("ends", "class_of"):
            state[name] = numpy.asarray(state[name])
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name in ("ends", "class_of"):
            state[name] = state[name].data
        self.__dict__.update(state)

    @property
    def nbytes(self) -> int:
        """The bytes of all paths and columns."""
        return len(self.blob) + self.ends.nbytes + self.class_of.nbytes

    @property
    def empty_classes(self) -> list[str]:
        """The classes without a file."""
        full = set(numpy.unique(numpy.asarray(self.class_of)).tolist())
        return [name for index, name in enumerate(self.classes) if index not in full]


class PackedPaths(Sequence[tuple[int, str]]):
    """A listing in some order: pairs of class number and path under the root."""

    def __init__(self, listing: Listing, order: Sequence[int]) -> None:
        self._listing, self._order = listing, order

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, index: int) -> tuple[int, str]: ...
    @overload
    def __getitem__(self, index: slice) -> PackedPaths: ...
    def __getitem__(self, index: int | slice) -> tuple[int, str] | PackedPaths:
        if isinstance(index, slice):
            return PackedPaths(self._listing, self._order[index])
        return self._listing[self._order[index]]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PackedPaths):
            return NotImplemented
        return self._listing is other._listing and self._order == other._order

    __hash__ = None  # type: ignore[assignment]  # as of any sequence that is compared by content

    def class_numbers(self) -> NDArray[Any]:
        """Return the class number of each path, without unpacking paths."""
        numbers: NDArray[Any] = numpy.asarray(self._listing.class_of)[numpy.asarray(self._order)]
        return numbers

    def tolist(self) -> list[tuple[int, str]]:
        """Return the pairs unpacked, as arrays do, to send them elsewhere."""
        return list(self)


def scan(root: str, endings: Endings) -> Listing:
    """List the class folders under a root.

    Raises:
        OSError: a folder cannot be read.
    """
    classes, loose, others = [], 0, Counter[str]()
    with os.scandir(root) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                classes.append(entry.name)
            elif endings.split(entry.name):
                loose += 1
    classes.sort()
    blob, ends, class_of, collisions = bytearray(), array("Q", [0]), array("L"), list[str]()
    for number, name in enumerate(classes):
        seen: dict[tuple[str, str], str] = {}
        for path in sorted(_walk(root, name, ())):
            parts = endings.split(path)
            if parts is None:
                others[os.path.splitext(path)[1].lower()] += 1
                continue
            if parts in seen:
                collisions.append(collision(seen[parts], path))
            seen[parts] = path
            blob += os.fsencode(path)
            ends.append(len(blob))
            class_of.append(number)
    return Listing(
        tuple(classes),
        bytes(blob),
        numpy.array(ends, numpy.min_scalar_type(len(blob))).data,
        numpy.array(class_of, numpy.min_scalar_type(len(classes))).data,
        loose,
        others,
        tuple(collisions),
    )


def _walk(root: str, folder: str, above: tuple[tuple[int, int], ...]) -> Iterator[str]:
    """Yield the files under a folder, links followed but for those that lead back up."""
    here = os.stat(os.path.join(root, folder))
    identity = (here.st_dev, here.st_ino)
    if identity in above:
        return
    with os.scandir(os.path.join(root, folder)) as entries:
        found = [(entry.name, entry.is_dir()) for entry in entries]
    for name, is_folder in found:
        if name.startswith("."):
            continue
        if is_folder:
            yield from _walk(root, f"{folder}/{name}", (*above, identity))
        else:
            yield f"{folder}/{name}"
