import io
import time
from typing import Any

import numpy
import pytest
from PIL import Image

from stoker.plugins import host
from stoker.testing import check_stage, order, read_all
from stoker_plugins.read import Synthetic
from tests.plugins.read.helpers import problems

SMALL = {"samples": 12, "shape": (20, 12, 3), "distinct": 5, "num_classes": 3}


def make(**given: Any) -> Synthetic:
    return Synthetic(**{**SMALL, **given})


def test_contract() -> None:
    check_stage(Synthetic())
    check_stage(make(encode="png", shuffle=True))
    assert host().stage_class("read.synthetic") is Synthetic


def test_arrays_have_the_shape_and_type_asked_for() -> None:
    for sample in read_all(make()):
        assert sample["image"].shape == (20, 12, 3)
        assert sample["image"].dtype == numpy.uint8
        assert sample["image"].flags.c_contiguous
    for shape in ((7,), (9, 10), (3, 4, 5, 6)):
        image = make(shape=shape, dtype="float32").read(0)["image"]
        assert image.shape == shape
        assert image.dtype == numpy.float32
        assert 0 <= image.min() < image.max() <= 1


def test_a_sample_depends_on_seed_and_number_alone() -> None:
    first, second = list(read_all(make())), list(read_all(make(), seed=9))
    for one, other in zip(first, second, strict=True):
        numpy.testing.assert_equal(one, other)
    assert not numpy.array_equal(first[0]["image"], make(seed=1).read(0)["image"])


def test_distinct_pictures_come_in_turn() -> None:
    images = [sample["image"] for sample in read_all(make())]
    assert len({image.tobytes() for image in images}) == 5
    assert numpy.array_equal(images[1], images[6])


def test_the_class_shows_in_the_picture() -> None:
    samples = list(read_all(make(samples=60, distinct=60)))
    means = [
        numpy.mean([sample["image"].mean((0, 1)) for sample in samples if sample["cls"] == cls], 0)
        for cls in range(3)
    ]
    assert min(numpy.abs(means[a] - means[b]).max() for a, b in ((0, 1), (0, 2), (1, 2))) > 30


@pytest.mark.parametrize(("encode", "field"), [("jpeg", "jpg"), ("png", "png")])
def test_encoded_pictures_decode(encode: str, field: str) -> None:
    plain = make().read(3)["image"]
    picture = Image.open(io.BytesIO(make(encode=encode).read(3)[field]))
    assert picture.size == (12, 20)
    limit = 0 if encode == "png" else 60
    assert numpy.abs(numpy.asarray(picture).astype(int) - plain).max() <= limit


def test_shuffle_and_origin() -> None:
    source = make(shuffle=True)
    assert order(source) != order(source, epoch=1)
    assert sorted(order(source)) == list(range(12))
    sample = source.read(7)
    assert tuple(source.origin(7)) == (sample["__key__"], sample["__url__"], None)


def test_delay_sleeps_in_each_read(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    list(read_all(make(delay_ms=2.5)))
    assert slept == [0.0025] * 12
    list(read_all(make()))
    assert len(slept) == 12


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"shape": ()}, "sizes of at least 1"),
        ({"shape": (3, 0)}, "sizes of at least 1"),
        ({"encode": "jpeg", "dtype": "float32"}, "needs dtype='uint8'"),
        ({"encode": "png", "shape": (5, 5)}, "needs shape=(H, W, 3)"),
    ],
)
def test_what_does_not_fit_together(given: dict[str, Any], says: str) -> None:
    (said,) = problems(make(**given))
    assert says in said
