"""JPEG pictures by libjpeg-turbo alone, the fast path; all others as `decode.image` does.

A library that decodes regions serves crops better still. Its stage is a `Decoder` too: `ask`
tells what is used of a picture whose size is known, `Part` how the answer lies to it. The whole
contract, with a library `tiles` that gives a picture's size and its pixels inside a box::

    @dataclass(frozen=True)
    class Tiles(Decoder):
        name: ClassVar[str] = "acme.tiles"

        def apply(self, sample, rng):
            data, ask = sample.pop("jpg"), self.ask(rng)
            height, width = tiles.size(data)  # upright, and without decoding
            region = ask(height, width) if ask is not None else None
            if region is None:  # no crop follows, or it wants all
                sample["image"] = tiles.decode(data, (0, 0, height, width))
                return sample
            top, left, bottom, right = region.outline()
            bottom, right = min(bottom, height), min(right, width)
            sample["image"] = tiles.decode(data, (top, left, bottom, right))
            box = (region.top - top, region.left - left, region.height, region.width)
            Part(region, box, (height, width)).note(sample, "image")
            return sample

The pixels inside the box must be those of the whole picture: libjpeg interpolates colour over
the borders of blocks, so a block more on each side is decoded and cut off. One that scales
divides `box` by its scale and keeps at least `region.least`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy
import PIL.Image
from numpy.typing import NDArray

from stoker.parameters import param
from stoker.region import Ask, Part, Region
from stoker.stages import Surroundings
from stoker_plugins.decode.exif import TURNS
from stoker_plugins.decode.image import Image
from stoker_plugins.decode.jpegs import Header, read_header
from stoker_plugins.decode.pixels import Decoded

# Only these have fast inverse transforms in libjpeg-turbo; 3/8, say, is slower than no scaling.
_SCALES = (8, 4, 2)
_STORED = {1: "L", 3: "RGB"}


@dataclass(frozen=True)
class Jpeg(Image):
    """Decodes pictures as `decode.image` does, JPEG files faster.

    JPEG in colour or grey is decoded by libjpeg-turbo through simplejpeg, to the same pixels
    as Pillow gives at less than half of its CPU time, and without holding the GIL. Anything
    else (other formats by their content, CMYK, damaged files) takes the way of
    `decode.image`, and so has the same results and the same errors.

    Where a crop follows that makes the part it uses much smaller, the picture is decoded at
    1/2, 1/4 or 1/8 of its size, as far as `margin` allows.
    """

    name: ClassVar[str] = "decode.jpeg"
    example: ClassVar[str] = "decode.Jpeg()"

    margin: float = param(
        2.0,
        "decode at a lower scale where the part is still so many times as large as the crop "
        "makes it; inf: never",
        minimum=1.0,
    )

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield what is wrong, and a library that is missing."""
        yield from super().check(around)
        if importlib.util.find_spec("simplejpeg") is None:
            yield (
                "it needs the package simplejpeg, which is not installed: "
                "pip install simplejpeg (stoker[jpeg] brings it), or use decode.image"
            )

    def _decoded(self, value: Any, ask: Ask | None) -> Decoded:
        if self.mode == "RGB" and isinstance(value, (bytes, bytearray, memoryview)):
            found = self._fast(bytes(value), ask)
            if found is not None:
                return found
        return super()._decoded(value, ask)

    def _fast(self, data: bytes, ask: Ask | None) -> Decoded | None:
        """Return a JPEG's pixels, None where they are not for the fast path."""
        header = read_header(data)
        if header is None or header.components not in _STORED:
            return None
        if header.height * header.width > self.max_pixels:
            return None
        turned = header.orientation > 4
        whole = (header.width, header.height) if turned else (header.height, header.width)
        region = ask(*whole) if ask is not None else None
        scale = self._scale(region) if region is not None and header.orientation == 1 else 1
        array = _pixels(data, header, scale)
        if array is None:
            return None
        if header.orientation != 1:
            turn = TURNS[header.orientation]
            array = numpy.array(PIL.Image.fromarray(array).transpose(turn))
        mode = _STORED[header.components]
        if region is None:
            return Decoded(array, mode, None)
        top, left, height, width = (side / scale for side in region.box)
        return Decoded(array, mode, Part(region, (top, left, height, width), whole))

    def _scale(self, region: Region) -> int:
        """Return by what the picture's sides may be divided: 1 for its full size."""
        if region.least is None:
            return 1
        spare = min(region.height / region.least[0], region.width / region.least[1])
        return next((scale for scale in _SCALES if spare >= scale * self.margin), 1)


def _pixels(data: bytes, header: Header, scale: int) -> NDArray[numpy.uint8] | None:
    """Return a picture (H, W, 3) at 1/scale of its size, None where the file is damaged."""
    import simplejpeg

    least = (-(-header.height // scale), -(-header.width // scale)) if scale > 1 else (0, 0)
    try:
        array: NDArray[numpy.uint8] = simplejpeg.decode_jpeg(
            data, "RGB", min_height=least[0], min_width=least[1]
        )
    except ValueError:  # Pillow forgives some damage, and words the rest
        return None
    shape = least if scale > 1 else (header.height, header.width)
    return array if array.shape[:2] == shape else None
