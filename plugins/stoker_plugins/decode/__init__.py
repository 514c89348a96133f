"""Decoders: from encoded bytes to arrays and typed fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stoker.lazy import lazy
from stoker.plugins import StageEntry, hookimpl

if TYPE_CHECKING:
    from stoker_plugins.decode.fields import Fields
    from stoker_plugins.decode.image import Image
    from stoker_plugins.decode.jpeg import Jpeg

__all__ = ["Fields", "Image", "Jpeg"]
__getattr__ = lazy(__name__, {"Fields": "fields", "Image": "image", "Jpeg": "jpeg"})


@hookimpl
def stoker_stages() -> Iterator[StageEntry]:
    """Bring the built-in decoders."""
    here = __name__
    yield StageEntry("decode.image", f"{here}.image:Image", "decode", "pictures to RGB arrays")
    yield StageEntry(
        "decode.jpeg", f"{here}.jpeg:Jpeg", "decode", "as decode.image, JPEG files faster"
    )
    yield StageEntry(
        "decode.fields", f"{here}.fields:Fields", "decode", ".cls, .json, .npy, .txt to values"
    )
