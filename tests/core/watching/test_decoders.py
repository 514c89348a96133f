"""Metering the decoding of pictures."""

from __future__ import annotations

import io
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy
import pytest
from PIL import Image, ImageFile

from stoker.watching import decoders
from stoker.watching import table as t
from stoker.watching.meter import LOCAL, Meter
from stoker.watching.table import Table

LOAD = ImageFile.ImageFile.load


@pytest.fixture
def meter() -> Iterator[Meter]:
    meter = Meter(Table.private())
    meter.on, LOCAL.meter = True, meter
    decoders.acquire()
    yield meter
    LOCAL.meter = None
    decoders.release()
    assert ImageFile.ImageFile.load is LOAD


def picture(kind: str, size: tuple[int, int] = (40, 30)) -> io.BytesIO:
    file = io.BytesIO()
    Image.new("RGB", size, (9, 99, 199)).save(file, kind)
    file.seek(0)
    return file


@pytest.mark.parametrize(("kind", "jpeg"), [("JPEG", 1), ("PNG", 0)])
def test_pixels_are_counted_once_when_they_are_needed(meter: Meter, kind: str, jpeg: int) -> None:
    with Image.open(picture(kind)) as opened:
        assert meter.cells[t.DECODED] == 0
        opened.convert("RGB")
        opened.load()
        opened.crop((0, 0, 5, 5))
    assert meter.cells[t.DECODED] == 1
    assert meter.cells[t.DECODED_PIXELS] == 1200
    assert meter.cells[t.DECODED_JPEG] == jpeg
    assert dict(meter.table.slots())["decode"][t.CALLS] == 1


def test_a_draft_counts_the_pixels_it_decodes(meter: Meter) -> None:
    with Image.open(picture("JPEG", (800, 800))) as opened:
        opened.draft("RGB", (100, 100))
        opened.load()
    assert meter.cells[t.DECODED_PIXELS] == 100 * 100


def test_nothing_is_counted_for_those_who_do_not_watch(meter: Meter) -> None:
    LOCAL.meter = None
    Image.open(picture("PNG")).load()
    meter.on, LOCAL.meter = False, meter
    Image.open(picture("PNG")).load()
    assert meter.cells[t.DECODED] == 0


def test_a_broken_picture_fails_as_ever(meter: Meter) -> None:
    broken = io.BytesIO(picture("PNG", (400, 300)).getvalue()[:200])
    with pytest.raises(OSError, match="truncated"):
        Image.open(broken).load()
    assert meter.cells[t.DECODED] == 0


def test_opencv_and_others_once_they_are_imported(
    meter: Meter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def imread(name: str, flags: int = 1) -> Any:
        return numpy.zeros((60, 80, 3)) if name == "there" else None

    lookalike: Any = types.ModuleType("cv2")
    lookalike.imread = imread
    monkeypatch.setitem(sys.modules, "cv2", lookalike)
    decoders.install()
    assert lookalike.imread("there", flags=1).shape == (60, 80, 3)
    assert lookalike.imread("missing") is None
    assert meter.cells[t.DECODED_PIXELS] == 4800
    decoders.acquire()
    decoders.release()
    assert lookalike.imread is not imread  # one more is still watching
    decoders.release()
    assert lookalike.imread is imread
    decoders.acquire()
