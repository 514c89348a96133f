"""Crop pushdown: a decoder asked for the part of a picture that a later stage uses.

An optimisation of the plan, as a database moves a predicate down to the scan. A stage that
crops says what it uses of a picture of some size (`Map.region`), by the size and its own
generator, and so before there are pixels. The plan hands that question to the decoder of the
same field (`Request`). A decoder answers with less than the whole picture, and notes in the
sample how what it gives lies to what was asked for (`Part`); a decoder that notes nothing gave
the whole picture, and the stage goes on as ever.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from stoker.rng import Rng
from stoker.sample import Sample
from stoker.stages import Map

_PART = "__part__."


class Region(NamedTuple):
    """A box of a whole, upright picture, in pixels, and how small the stage will make it."""

    top: float
    left: float
    height: float
    width: float
    least: tuple[int, int] | None = None
    """(height, width) in px that the box is resized to: a decoder may give it scaled down, but
    not below this. None: its pixels are used as they are, and so must not be scaled."""

    @property
    def box(self) -> tuple[float, float, float, float]:
        """The box: (top, left, height, width) in px."""
        return self.top, self.left, self.height, self.width

    def outline(self) -> tuple[int, int, int, int]:
        """Return the whole pixels that the box touches: (top, left, bottom, right)."""
        top, left = math.floor(self.top), math.floor(self.left)
        return top, left, math.ceil(self.top + self.height), math.ceil(self.left + self.width)


class Part(NamedTuple):
    """How an array lies to the whole picture that a decoder saw."""

    region: Region
    """What was asked for."""
    box: tuple[float, float, float, float]
    """Where that lies in the array: (top, left, height, width), in the array's pixels."""
    whole: tuple[int, int]
    """(height, width) of the whole, upright picture, in px."""

    def note(self, sample: Sample, field: str) -> None:
        """Write it into a sample, for the stage that takes the picture in `field`."""
        sample[_PART + field] = self


def take_part(sample: Sample, field: str) -> Part | None:
    """Take the note of a decoder out of a sample; None where the picture is whole."""
    part: Part | None = sample.pop(_PART + field, None)
    return part


Ask = Callable[[int, int], Region | None]
"""Tells what is used of an upright picture of some (height, width); None: all of it."""


@dataclass(frozen=True)
class Request:
    """The stage downstream that a decoder may ask what it uses."""

    stage: Map
    name: str
    """Its unique name, by which its draws are seeded."""
    field: str

    def region(self, height: int, width: int, rng: Rng) -> Region | None:
        """Return what the stage will use of a picture.

        Args:
            height: of the whole, upright picture, in pixels.
            width: of it, in pixels.
            rng: the decoder's own, at this sample.
        """
        return self.stage.region(self.field, height, width, rng.of(self.name))


@dataclass(frozen=True, kw_only=True)
class Decoder(Map):
    """A map that makes a picture, and may be asked for a part of it only."""

    kind: ClassVar[str] = "decode"
    deterministic: ClassVar[bool] = True

    request: Request | None = dataclasses.field(
        default=None, repr=False, metadata={"internal": True}
    )
    """Put in by the plan."""

    @property
    def makes(self) -> str:
        """The field that it writes its picture to."""
        return "image"

    def ask(self, rng: Rng) -> Ask | None:
        """Return what tells the region that is used, None where all of the picture is."""
        request = self.request
        if request is None:
            return None
        return lambda height, width: request.region(height, width, rng)
