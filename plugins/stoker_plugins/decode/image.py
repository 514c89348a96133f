"""Pictures to RGB arrays, with Pillow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy
import PIL.Image

from stoker.parameters import faults, param
from stoker.rng import Rng
from stoker.sample import Sample, fields_of, missing_field
from stoker.stages import Map, Surroundings
from stoker_plugins.decode.colour import to_rgb
from stoker_plugins.decode.exif import turn
from stoker_plugins.decode.opening import open_picture

if TYPE_CHECKING:
    from numpy.typing import NDArray

_COMMON = ("jpg", "jpeg", "png", "webp")
_KNOWN = {
    *_COMMON,
    *("jpe", "jfif", "bmp", "dib", "gif", "tif", "tiff", "ppm", "pgm", "pbm", "pnm"),
    *("avif", "heic", "heif", "jp2", "ico", "tga"),
}
# What Pillow refuses by default.
_MAX_PIXELS = 178_956_970


@dataclass(frozen=True)
class Image(Map):
    """Decodes a picture of any format that Pillow reads to an array (H, W, 3) of uint8, RGB.

    The format is told by the content, whatever the field is called. EXIF orientation is
    applied; transparent parts are laid over `background`; 16-bit grey is scaled to 8
    bits; CMYK is converted; of an animation the first frame is taken. Where a picture
    was stored in another mode than RGB, the sample's `__mode__` says which.

    The encoded field is taken out of the sample. A field that holds a `PIL.Image`
    instead of bytes is converted in the same way.
    """

    name: ClassVar[str] = "decode.image"
    kind: ClassVar[str] = "decode"
    example: ClassVar[str] = "decode.Image(background=(0, 0, 0))"

    source: str | None = param(None, "field to decode; None: the first picture field")
    output: str = param("image", "field to write")
    background: tuple[int, int, int] = param((255, 255, 255), "RGB under transparent parts")
    max_pixels: int = param(_MAX_PIXELS, "pictures with more are refused", minimum=1)
    keep: bool = param(False, "leave the encoded field in the sample")

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield a background that is no colour, and names that clash."""
        if any(faults(self)):
            return
        if not all(0 <= value <= 255 for value in self.background):
            yield f"background={self.background}: allowed are three values from 0 to 255"
        if not self.output:
            yield "output='': name the field to write"
        if self.keep and self.output == self.source:
            yield f"keep=True, but output={self.output!r} takes the place of the encoded field"

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        """Return the sample with its picture decoded."""
        field = _picture_field(sample) if self.source is None else self.source
        if field not in sample:
            raise missing_field(field, sample)
        value = sample[field]
        try:
            array, mode = self._decode(value)
        except MemoryError:
            raise
        except Exception as error:  # each of Pillow's drivers has errors of its own
            raise ValueError(f"field {field!r}: {error}") from error
        if not self.keep:
            del sample[field]
        if mode != "RGB":
            sample["__mode__"] = mode
        sample[self.output] = array
        return sample

    def _decode(self, value: Any) -> tuple[NDArray[numpy.uint8], str]:
        """Return the array (H, W, 3) and the mode that the picture was stored in."""
        if isinstance(value, PIL.Image.Image):
            image = value
        elif isinstance(value, (bytes, bytearray, memoryview)):
            image = open_picture(bytes(value), self.max_pixels)
        else:
            raise TypeError(f"encoded bytes are expected, not {type(value).__name__}")
        image.load()
        mode, upright = image.mode, turn(image)
        image = to_rgb(image, self.background)
        if upright is not None:
            image = image.transpose(upright)
        return numpy.array(image), mode


def _picture_field(sample: Mapping[str, Any]) -> str:
    """Return the first field named by a picture's extension, compound ones (`seg.png`) last."""
    for field in sample:
        if field in _KNOWN:
            return field
    for field in fields_of(sample):
        if field.rpartition(".")[2] in _KNOWN:
            return field
    seen = ", ".join(sorted(fields_of(sample))) or "none"
    raise KeyError(f"no picture field ({', '.join(_COMMON)}, ...); the sample has: {seen}")
