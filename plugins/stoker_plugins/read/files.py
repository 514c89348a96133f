"""Pictures in class folders, one file a sample."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from stoker.errors import UsageError, describe_given
from stoker.parameters import faults, param, shown
from stoker.rng import Rng
from stoker.sample import Address, Origin, Sample
from stoker.stages import Caution, Source, Surroundings, Worker
from stoker_plugins.read.keys import fields_in_lower_case
from stoker_plugins.read.listing import Endings, Listing, PackedPaths, scan
from stoker_plugins.read.order import order
from stoker_plugins.read.stamps import stamp

EXTENSIONS = ("jpg", "jpeg", "png", "webp", "bmp", "gif", "tif", "tiff", "ppm", "pgm", "avif")


@dataclass(frozen=True)
class Files(Source):
    """Reads files from `root/CLASS/**/NAME.EXTENSION`, one sample each.

    A sample holds the file's bytes under its extension in lower case, and `cls`, the
    number of its class: the place of its folder in the sorted names of all class
    folders (`classes`). Its key is its path under `root` up to the extension, which
    here begins at the last dot: `photo.2020.01.jpg` is a file's name, not a set of
    fields. Hidden files and folders are left out.

    The tree is listed once, in the process that plans; workers get paths.
    """

    name: ClassVar[str] = "read.files"
    example: ClassVar[str] = 'read.Files("photos/train", shuffle=True)'

    __repr__ = shown

    root: str | Path = param(help="folder that holds one folder for each class")
    extensions: tuple[str, ...] = param(EXTENSIONS, "endings to read, in any case")
    shuffle: bool = param(False, "another order in each epoch")

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield what is wrong with the tree."""
        if any(faults(self)):
            return
        yield from self._problems
        if not self._problems:
            for name in self._listing.empty_classes:
                yield Caution(
                    f"class folder {name!r} in {str(self.root)!r} holds no file to read; "
                    "it still counts as a class"
                )

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes; a sample's `cls` is an index into them."""
        return self._listing.classes

    def addresses(self, epoch: int, rng: Rng) -> Sequence[Address]:
        """Return this epoch's order: pairs of class number and path under `root`, packed."""
        if self._problems:
            raise UsageError("; ".join(self._problems))
        return PackedPaths(self._listing, order(len(self._listing), self.shuffle, rng))

    def content(self) -> str:
        """Return a digest of all paths, sizes and times of change: a call of `stat` a file."""
        if self._problems:
            return ""
        root, listing = os.fspath(self.root), self._listing
        return stamp(os.path.join(root, listing[i][1]) for i in range(len(listing)))

    def read(self, address: Address) -> Sample:
        """Return one file as a sample."""
        with self.open(Worker()) as read:
            return read(address)

    def origin(self, address: Address) -> Origin:
        """Return key and path."""
        _, path = _parts(address)
        return Origin(self._split(path)[0], os.path.join(self.root, path), None)

    @contextmanager
    def open(self, worker: Worker) -> Iterator[Callable[[Address], Sample]]:
        """Yield what reads a file; nothing stays open between files."""
        join, root, split = os.path.join, os.fspath(self.root), self._split

        def read(address: Address) -> Sample:
            cls, path = _parts(address)
            whole = join(root, path)
            with open(whole, "rb", buffering=0) as file:
                data = file.readall()
            key, field = split(path)
            return {"__key__": key, "__url__": whole, field: data, "cls": cls}

        yield read

    @cached_property
    def _endings(self) -> Endings:
        return Endings(fields_in_lower_case(self.extensions))

    @cached_property
    def _listing(self) -> Listing:
        return scan(os.fspath(self.root), self._endings)

    @cached_property
    def _problems(self) -> list[str]:
        root = os.fspath(self.root)
        given = f"root={describe_given(root)}"
        if not os.path.exists(root):
            return [f"{given}: no such folder; give the folder that holds the class folders"]
        if not os.path.isdir(root):
            return [f"{given} is a file; give the folder that holds the class folders"]
        try:
            listing = self._listing
        except OSError as error:
            return [f"{given} cannot be listed: {error.strerror} ({error.filename})"]
        if not listing.classes:
            what = f"{listing.loose} files to read but" if listing.loose else "nothing:"
            return [f"{given} holds {what} no class folders; files lie in root/CLASS/NAME.jpg"]
        if not len(listing):
            return [f"{given}: no file in its class folders {self._unmatched(listing)}"]
        if listing.collisions:
            more = len(listing.collisions) - 1
            tail = f" (and {more} more such pairs)" if more else ""
            return [f"{given}: {listing.collisions[0]}{tail}"]
        return []

    def _split(self, path: str) -> tuple[str, str]:
        parts = self._endings.split(path)
        if parts is None:
            raise ValueError(f"{path!r} ends in none of {', '.join(self.extensions)}")
        return parts

    def _unmatched(self, listing: Listing) -> str:
        wanted = ", ".join(f".{name}" for name in fields_in_lower_case(self.extensions))
        seen = ", ".join(
            f"{count} with {ending or 'none'}" for ending, count in listing.others.most_common(3)
        )
        return f"ends in {wanted or '(extensions is empty)'}; endings there: {seen or 'none'}"


def _parts(address: Address) -> tuple[int, str]:
    assert isinstance(address, tuple)
    cls, path = address
    return cls, path
