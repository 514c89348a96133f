"""Made-up pictures, for trying a pipeline without data and for measuring one."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from stoker.parameters import faults, param, shown
from stoker.rng import Rng
from stoker.sample import Address, Origin, Sample
from stoker.stages import Source, Surroundings, Worker
from stoker_plugins.read.order import order

if TYPE_CHECKING:
    from numpy.typing import NDArray

_URL = "synthetic"
_PATCH = 8
_NOISE = 24


@dataclass(frozen=True)
class Synthetic(Source):
    """Makes samples from a seed: a picture and its class.

    Sample `i` shows picture `i % distinct`: so many are made when reading begins, and
    reading one then costs next to nothing, as a source that stands for storage must;
    `delay_ms` makes it as slow as wanted. Pictures are coloured patches and noise; the
    class sets the tint, so a model can learn it. Everything depends on the parameters
    alone, not on the pipeline's seed.

    A sample holds `image`, an array, or with `encode` its bytes as `jpg` or `png`; and
    `cls`, an int.
    """

    name: ClassVar[str] = "read.synthetic"
    example: ClassVar[str] = 'read.Synthetic(10_000, shape=(224, 224, 3), encode="jpeg")'

    __repr__ = shown

    samples: int = param(1024, "samples in an epoch", minimum=1)
    shape: tuple[int, ...] = param((224, 224, 3), "of a picture, (H, W, C)")
    dtype: Literal["uint8", "float32"] = param("uint8", "of its values: 0 to 255, or 0 to 1")
    num_classes: int = param(10, "classes, in turn", minimum=1)
    encode: Literal["none", "jpeg", "png"] = param("none", "give encoded bytes, for a decoder")
    delay_ms: float = param(0.0, "sleep in each read, as slow storage would", unit="ms", minimum=0)
    distinct: int = param(64, "different pictures", minimum=1)
    seed: int = param(0, "of the pictures", minimum=0)
    shuffle: bool = param(False, "another order in each epoch")

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield what does not fit together."""
        if any(faults(self)):
            return
        if not self.shape or min(self.shape) < 1:
            yield f"shape={self.shape}: allowed are sizes of at least 1, such as (224, 224, 3)"
        elif self.encode != "none":
            if self.dtype != "uint8":
                yield f"encode={self.encode!r} needs dtype='uint8', not {self.dtype!r}"
            if len(self.shape) != 3 or self.shape[2] != 3:
                yield f"encode={self.encode!r} needs shape=(H, W, 3), not {self.shape}"

    def addresses(self, epoch: int, rng: Rng) -> Sequence[Address]:
        """Return this epoch's order of sample numbers."""
        return order(self.samples, self.shuffle, rng)

    def read(self, address: Address) -> Sample:
        """Return one sample."""
        with self.open(Worker()) as read:
            return read(address)

    def origin(self, address: Address) -> Origin:
        """Return the sample's number as its key."""
        return Origin(str(address), _URL, None)

    @contextmanager
    def open(self, worker: Worker) -> Iterator[Callable[[Address], Sample]]:
        """Make the pictures, once in a process; yield what gives a sample."""
        pictures, num_classes, delay_s = self._pictures, self.num_classes, self.delay_ms / 1000
        field = {"none": "image", "jpeg": "jpg", "png": "png"}[self.encode]

        def read(address: Any) -> Sample:
            picture = address % len(pictures)
            if delay_s:
                time.sleep(delay_s)
            return {
                "__key__": str(address),
                "__url__": _URL,
                field: pictures[picture],
                "cls": picture % num_classes,
            }

        yield read

    @cached_property
    def _pictures(self) -> list[Any]:
        rng = Rng(self.seed, self.name)
        arrays = [
            _picture(rng.move(0, number), self.shape, number % self.num_classes, self.num_classes)
            for number in range(min(self.distinct, self.samples))
        ]
        if self.encode != "none":
            return [_encoded(array, self.encode) for array in arrays]
        if self.dtype == "float32":
            return [(array / 255).astype("float32") for array in arrays]
        return arrays


def _picture(rng: Rng, shape: tuple[int, ...], cls: int, num_classes: int) -> NDArray[Any]:
    """Return patches of 8 by 8 pixels in a colour near the class's, with noise over them."""
    import numpy

    draw = rng.numpy
    patches = tuple(-(-size // _PATCH) for size in shape[:2])
    tint = 32 + 192 * ((cls + numpy.arange(3) * num_classes / 3) % num_classes) / num_classes
    values = draw.integers(-64, 65, (*patches, *shape[2:]))
    for axis, size in enumerate(shape[:2]):
        values = values.repeat(_PATCH, axis).take(range(size), axis)
    values = values + draw.integers(-_NOISE, _NOISE + 1, shape)
    values = values + numpy.resize(tint, shape[-1] if len(shape) == 3 else 1)
    return numpy.ascontiguousarray(values.clip(0, 255).astype(numpy.uint8))


def _encoded(array: NDArray[Any], encode: str) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, encode.upper())
    return buffer.getvalue()
