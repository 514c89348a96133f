import io
from concurrent.futures import ThreadPoolExecutor

import numpy
import pytest
from PIL import Image as Picture

from stoker.plugins import host
from stoker.rng import Rng
from stoker.stages import Worker
from stoker.testing import apply, check_stage
from stoker_plugins.decode import Image, Jpeg
from tests.plugins.decode.helpers import decoded, encoded, noise, problems


def test_contract() -> None:
    check_stage(Image())
    check_stage(Image(source="seg.png", output="mask", background=(0, 0, 0), keep=True))
    assert host().stage_class("decode.image") is Image


def test_pixels_are_pillows() -> None:
    data = encoded(noise(37, 50), "JPEG")
    assert numpy.array_equal(decoded(data), numpy.asarray(Picture.open(io.BytesIO(data))))
    assert numpy.array_equal(decoded(encoded(noise(), "PNG")), noise())
    assert numpy.array_equal(decoded(bytearray(encoded(noise(), "PNG"))), noise())
    assert numpy.array_equal(decoded(memoryview(encoded(noise(), "PNG"))), noise())


def test_the_encoded_field_is_taken_out() -> None:
    data = encoded(noise(), "PNG")
    sample = apply(Image(), {"__key__": "a", "png": data, "cls": 3})
    assert set(sample) == {"__key__", "image", "cls"}
    kept = apply(Image(keep=True, output="pixels"), {"png": data})
    assert set(kept) == {"png", "pixels"}
    in_place = apply(Image(source="png", output="png"), {"png": data})
    assert in_place["png"].shape == (5, 8, 3)


def test_which_field_is_decoded() -> None:
    first, second = encoded(noise(seed=1), "PNG"), encoded(noise(seed=2), "PNG")
    for sample, source in (
        ({"seg.png": first, "jpg": second}, None),
        ({"cls": b"1", "depth.tiff": second}, None),
        ({"__x.png": first, "jpeg": second, "png": first}, None),
        ({"jpg": first, "raw": second}, "raw"),
    ):
        assert numpy.array_equal(apply(Image(source=source), sample)["image"], noise(seed=2))


def test_B01_a_missing_field_lists_those_seen() -> None:
    with pytest.raises(KeyError, match=r"no field 'png'; the sample has: cls, jpg"):
        apply(Image(source="png"), {"jpg": b"", "cls": b"", "__key__": "a"})
    with pytest.raises(KeyError, match=r"no picture field .*; the sample has: cls, txt"):
        apply(Image(), {"txt": b"", "cls": b"", "__key__": "a"})


def test_B12_content_decides_and_errors_name_the_field() -> None:
    assert numpy.array_equal(apply(Image(), {"jpg": encoded(noise(), "PNG")})["image"], noise())
    with pytest.raises(ValueError, match="field 'png': empty file"):
        apply(Image(), {"png": b""})
    with pytest.raises(ValueError, match="field 'jpg': no picture .* looks like an HTML page"):
        apply(Image(), {"jpg": b"<html>"})


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_a_cut_picture_is_an_error(kind: str, share: float) -> None:
    options = {"compression": "tiff_lzw"} if kind == "TIFF" else {}
    data = encoded(noise(64, 64), kind, **options)
    with pytest.raises(ValueError, match="field 'jpg': "):
        decoded(data[: int(len(data) * share)])


def test_a_failed_sample_keeps_its_fields() -> None:
    sample = {"jpg": b"no", "cls": b"1"}
    with pytest.raises(ValueError):
        apply(Image(), sample)
    assert sample == {"jpg": b"no", "cls": b"1"}


def test_S4_the_limit_is_a_parameter() -> None:
    data = encoded(noise(5, 8), "JPEG")
    assert decoded(data, max_pixels=40).shape == (5, 8, 3)
    with pytest.raises(ValueError, match=r"field 'jpg': 8 x 5 = 40 pixels; .*max_pixels=39"):
        decoded(data, max_pixels=39)


def test_a_pillow_image_is_converted() -> None:
    assert numpy.array_equal(decoded(Picture.fromarray(noise())), noise())
    grey = Picture.fromarray(noise()[:, :, 0])
    assert numpy.array_equal(decoded(grey), numpy.dstack([noise()[:, :, 0]] * 3))


def test_an_array_is_no_encoded_picture() -> None:
    with pytest.raises(ValueError, match="encoded bytes are expected, not ndarray"):
        decoded(noise())


def test_many_threads_decode_at_once() -> None:
    pictures = [noise(40, 50, seed) for seed in range(12)]
    formats = ["PNG", "BMP", "TIFF", "PPM"]
    data = [encoded(picture, formats[n % 4]) for n, picture in enumerate(pictures)]
    with Image().open(Worker()) as decode, ThreadPoolExecutor(8) as pool:
        samples = [{"jpg": data[n % 12]} for n in range(240)]
        results = pool.map(lambda sample: decode(sample, Rng(0, "x")), samples)
        for number, result in enumerate(results):
            assert result is not None
            assert numpy.array_equal(result["image"], pictures[number % 12])


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"background": (0, 0, 256)}, "three values from 0 to 255"),
        ({"output": ""}, "name the field to write"),
        ({"source": "jpg", "output": "jpg", "keep": True}, "takes the place"),
    ],
)
def test_what_does_not_fit_together(given: dict[str, object], says: str) -> None:
    (said,) = problems(Image(**given))  # type: ignore[arg-type]
    assert says in said


@pytest.mark.parametrize("wrong", [{"background": 3}, {"source": 3}, {"max_pixels": "many"}])
def test_check_never_raises(wrong: dict[str, object]) -> None:
    assert problems(Image(**wrong)) == []  # type: ignore[arg-type]


@pytest.mark.parametrize("stage", [Image, Jpeg])
def test_without_memory_it_says_for_what(
    stage: type[Image], monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(*_: object) -> None:
        raise MemoryError

    data = encoded(noise(), "PNG")
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", short)
    with pytest.raises(MemoryError, match=r"field 'png': no memory .* lower max_pixels"):
        apply(stage(), {"png": data})
