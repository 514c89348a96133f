"""What the loop that consumes a loader did: how long it waited and how long it worked."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from stoker.watching.clocks import Spent

_KEPT: Final = 8192


@dataclass
class Epoch:
    """One pass over the loader. Times in ns."""

    began_ns: int
    make_ns: int = 0
    """Spent in `iter(loader)`."""
    first_ns: int = 0
    """Waited for the first batch."""
    end_ns: int = 0
    """Spent in the `next()` that found no more."""
    batches: int = 0
    wait_ns: int = 0
    """Waited for all batches but the first."""
    step_ns: int = 0
    complete: bool = False

    @property
    def pause_ns(self) -> int:
        """Start and end: nothing could be done but wait."""
        return self.make_ns + self.first_ns + self.end_ns

    @property
    def total_ns(self) -> int:
        """The whole pass."""
        return self.pause_ns + self.wait_ns + self.step_ns


class Recent:
    """The latest durations of a series, and the sum of all."""

    __slots__ = ("_at", "count", "total", "values")

    def __init__(self) -> None:
        self.values = array("q")
        self.count = self.total = self._at = 0

    def add(self, value: int) -> None:
        """Add a duration."""
        self.count += 1
        self.total += value
        if len(self.values) < _KEPT:
            self.values.append(value)
        else:
            self.values[self._at] = value
            self._at = (self._at + 1) % _KEPT


@dataclass
class Loop:
    """All passes over a watched loader."""

    epochs: list[Epoch] = field(default_factory=list)
    waits: Recent = field(default_factory=Recent)
    """For all batches but the first of each epoch."""
    steps: Recent = field(default_factory=Recent)
    fills: list[float] = field(default_factory=lambda: [0.0, 0.0])
    """Sum and count of the share of batches in flight that were ready when one was asked for."""
    next_cpu: list[int] = field(default_factory=lambda: [0, 0])
    """CPU time of the loop's thread inside `next()` in ns, and in how many of them."""
    step_cpu: list[int] = field(default_factory=lambda: [0, 0])
    """CPU time of the process in steps in ns, and in how many of them."""
    spent: Spent = field(default_factory=Spent)
    """By this process and by the machine, during all passes."""
    pin_cpu_ns: int = 0
    batch_sizes: list[int] = field(default_factory=list)
    """Of batches that were looked at; where they could be told."""
    pixels: list[int] = field(default_factory=list)
    """Height x width of pictures in batches that were looked at."""
    lists: int = 0
    """Of these batches, lists of samples that nobody collated."""
    looked_at: int = 0

    @property
    def batches(self) -> int:
        """Batches delivered."""
        return sum(epoch.batches for epoch in self.epochs)

    def new_epoch(self, began_ns: int) -> Epoch:
        """Begin a pass; of very many only sums are kept apart."""
        if len(self.epochs) >= 1024:
            one, other = self.epochs[:2]
            for name in ("make_ns", "first_ns", "end_ns", "batches", "wait_ns", "step_ns"):
                setattr(other, name, getattr(one, name) + getattr(other, name))
            del self.epochs[0]
        epoch = Epoch(began_ns)
        self.epochs.append(epoch)
        return epoch

    def look_at(self, batch: Any) -> None:
        """Note size and pixels of a batch."""
        self.looked_at += 1
        size, pixels = _shape(batch, 0)
        if size is not None:
            self.batch_sizes.append(size)
        if pixels is not None:
            self.pixels.append(pixels)
        # A batch of fields is a tuple or a list of tensors; a list of samples holds structures.
        if isinstance(batch, list) and len(batch) > 1 and _is_sample(batch[0]):
            self.lists += type(batch[0]) is type(batch[1])


def _is_sample(thing: Any) -> bool:
    return isinstance(thing, (tuple, list, dict)) and len(thing) > 0


def _shape(thing: Any, depth: int) -> tuple[int | None, int | None]:
    """Return how many samples a tree of arrays holds and the pixels of its biggest picture."""
    if depth > 3:
        return None, None
    shape = getattr(thing, "shape", None)
    if shape is not None and not callable(shape):
        sizes = tuple(shape)
        return (int(sizes[0]) if sizes else None), _pixels(sizes)
    if isinstance(thing, Mapping):
        parts = list(thing.values())
    elif isinstance(thing, (tuple, list)):
        parts = list(thing[:64])
    else:
        sides: Any = getattr(thing, "size", None)  # a picture of Pillow's
        is_picture = isinstance(sides, tuple) and len(sides) == 2 and hasattr(thing, "mode")
        return None, sides[0] * sides[1] if is_picture else None
    found = [_shape(part, depth + 1) for part in parts]
    size = next((size for size, _ in found if size is not None), None)
    return size, max((pixels for _, pixels in found if pixels is not None), default=None)


def _pixels(sizes: tuple[Any, ...]) -> int | None:
    """Return height x width of what looks like pictures: (.., C, H, W) or (.., H, W, C)."""
    if len(sizes) < 3:
        return None
    last = sizes[-3:]
    if last[2] in (1, 3, 4) and last[0] > 4:
        return int(last[0]) * int(last[1])
    return int(last[1]) * int(last[2]) if last[0] <= 16 or len(sizes) >= 4 else None
