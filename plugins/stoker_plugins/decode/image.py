"""Pictures to arrays, with Pillow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import PIL.Image
import PIL.ImageFile

from stoker.parameters import faults, param
from stoker.region import Ask, Decoder
from stoker.rng import Rng
from stoker.sample import Sample, fields_of, missing_field
from stoker.stages import Caution, Surroundings
from stoker_plugins.decode.colour import Mode
from stoker_plugins.decode.opening import open_picture
from stoker_plugins.decode.pixels import Decoded, Wanted, pixels_of

_COMMON = ("jpg", "jpeg", "png", "webp")
_KNOWN = {
    *_COMMON,
    *("jpe", "jfif", "bmp", "dib", "gif", "tif", "tiff", "ppm", "pgm", "pbm", "pnm"),
    *("avif", "heic", "heif", "jp2", "ico", "tga"),
}
# What Pillow refuses by default.
_MAX_PIXELS = 178_956_970


@dataclass(frozen=True)
class Image(Decoder):
    """Decodes a picture of any format that Pillow reads to an array (H, W, C), mostly uint8 RGB.

    The format is told by the content, whatever the field is called. EXIF orientation is
    applied; transparent parts are laid over `background`; 16-bit grey is scaled to 8
    bits; CMYK is converted; of an animation the first frame is taken. Where a picture
    was stored in another mode than the one asked for, the sample's `__mode__` says which.

    The encoded field is taken out of the sample. A field that holds a `PIL.Image`
    instead of bytes is converted in the same way.
    """

    name: ClassVar[str] = "decode.image"
    example: ClassVar[str] = "decode.Image(background=(0, 0, 0))"

    source: str | None = param(None, "field to decode; None: the first picture field")
    output: str = param("image", "field to write")
    mode: Mode = param(
        "RGB",
        "channels: RGB 3, RGBA 4, L (grey) 1, of 8 bits; stored: as the file has them, 16 bits, "
        "palette indices and CMYK too",
    )
    background: tuple[int, int, int] = param((255, 255, 255), "RGB under transparent parts")
    truncated: Literal["refuse", "fill"] = param(
        "refuse",
        "a file that ends early; fill: give what there is, the rest in one colour, and note "
        "__truncated__ in the sample (WebP, AVIF and packed TIFF have nothing to give)",
    )
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
        if self.truncated == "refuse" and PIL.ImageFile.LOAD_TRUNCATED_IMAGES:
            yield Caution(
                "PIL.ImageFile.LOAD_TRUNCATED_IMAGES is set in this process, so Pillow fills files "
                'that end early (JPEG apart); take that line out, or say truncated="fill"'
            )

    @property
    def makes(self) -> str:
        """The field that it writes its picture to."""
        return self.output

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        """Return the sample with its picture decoded."""
        field = _picture_field(sample) if self.source is None else self.source
        if field not in sample:
            raise missing_field(field, sample)
        value = sample[field]
        try:
            found = self._decoded(value, self.ask(rng))
        except MemoryError as error:
            raise MemoryError(
                f"field {field!r}: no memory for its pixels; a lower max_pixels refuses it"
            ) from error
        except Exception as error:  # each of Pillow's drivers has errors of its own
            raise ValueError(f"field {field!r}: {error}") from error
        if not self.keep:
            del sample[field]
        if found.mode != self.mode:
            sample["__mode__"] = found.mode
        if found.truncated:
            sample["__truncated__"] = True
        sample[self.output] = found.array
        if found.part is not None:
            found.part.note(sample, self.output)
        return sample

    def _decoded(self, value: Any, ask: Ask | None) -> Decoded:
        """Return the pixels of an encoded or opened picture."""
        wanted = Wanted(self.mode, self.background, self.truncated == "fill", ask)
        if isinstance(value, PIL.Image.Image):
            return pixels_of(value, wanted)
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise TypeError(f"encoded bytes are expected, not {type(value).__name__}")
        return pixels_of(open_picture(bytes(value), self.max_pixels, wanted.fill), wanted)


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
