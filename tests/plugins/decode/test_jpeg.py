import dataclasses
import inspect
import struct
import sys
import textwrap
import types
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy
import pytest
from numpy.typing import NDArray
from PIL import Image as Picture
from sklearn.datasets import load_sample_images

from stoker.plugins import host
from stoker.region import Decoder, Part, Region, Request, take_part
from stoker.rng import Rng
from stoker.sample import Sample
from stoker.testing import apply, check_stage
from stoker_plugins.augment import CenterCrop, RandomResizedCrop, Resize
from stoker_plugins.decode import Image, Jpeg, jpeg
from stoker_plugins.decode.jpegs import read_header
from tests.plugins.decode.helpers import encoded, exif, noise, problems

CROP = "augment.random_resized_crop"


def photograph(number: int = 0, size: tuple[int, int] | None = None) -> Picture.Image:
    picture = Picture.fromarray(load_sample_images().images[number])
    return picture.resize(size, Picture.Resampling.LANCZOS) if size else picture


def both(data: bytes, **given: Any) -> tuple[Sample, Sample]:
    return apply(Jpeg(**given), {"jpg": data}), apply(Image(**given), {"jpg": data})


def same(data: bytes, **given: Any) -> NDArray[Any]:
    fast, slow = both(data, **given)
    assert fast.keys() == slow.keys()
    assert fast.get("__mode__") == slow.get("__mode__")
    assert numpy.array_equal(fast["image"], slow["image"])
    assert fast["image"].flags.c_contiguous
    image: NDArray[Any] = fast["image"]
    return image


def psnr(one: NDArray[Any], other: NDArray[Any]) -> float:
    error = float(((one.astype(float) - other) ** 2).mean())
    return 10 * numpy.log10(255**2 / error) if error else 99.0


def test_contract() -> None:
    check_stage(Jpeg())
    check_stage(Jpeg(margin=float("inf"), mode="L"))
    assert host().stage_class("decode.jpeg") is Jpeg
    assert problems(Jpeg()) == []


def test_without_its_library_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    (problem,) = problems(Jpeg())
    assert "pip install simplejpeg" in problem
    assert "decode.image" in problem


@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize("progressive", [False, True])
def test_pixels_are_those_of_decode_image(subsampling: int, progressive: bool) -> None:
    made = encoded(
        photograph(), "JPEG", quality=90, subsampling=subsampling, progressive=progressive
    )
    assert same(made).shape == (427, 640, 3)


def test_grey_is_noted_and_three_channels() -> None:
    assert same(encoded(photograph().convert("L"), "JPEG")).shape == (427, 640, 3)
    assert both(encoded(photograph().convert("L"), "JPEG"))[0]["__mode__"] == "L"


@pytest.mark.parametrize("orientation", [*range(10), 99])
def test_B10_orientation(orientation: int) -> None:
    data = encoded(noise(24, 40), "JPEG", exif=b"Exif\0\0" + exif(orientation))
    turned = orientation in (5, 6, 7, 8)
    assert same(data).shape == ((40, 24, 3) if turned else (24, 40, 3))


def test_B10_malformed_orientation() -> None:
    for bad in (b"", b"Exif\0\0", b"Exif\0\0II*\0\xff\xff\xff\xff", b"Exif\0\0" + exif(6)[:-5]):
        same(encoded(noise(24, 40), "JPEG", exif=bad))


def test_other_formats_take_the_way_of_decode_image() -> None:
    for kind in ("PNG", "WEBP", "BMP", "GIF"):
        same(encoded(noise(), kind))
    same(encoded(Picture.fromarray(noise()).convert("CMYK"), "JPEG"))
    assert apply(Jpeg(), {"jpg": Picture.fromarray(noise())})["image"].shape == (5, 8, 3)
    for mode in ("L", "RGBA", "stored"):
        same(encoded(photograph(), "JPEG"), mode=mode)


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff\xd8", b"\xff\xd8\xff", b"<html></html>", b"\xff\xd8\xff\xe0\0\x10JFIF", 3],
    ids=["empty", "start", "mark", "html", "header", "number"],
)
def test_errors_are_those_of_decode_image(data: Any) -> None:
    texts = []
    for stage in (Jpeg(), Image()):
        with pytest.raises(ValueError, match="field 'jpg'") as caught:
            apply(stage, {"jpg": data})
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


def test_damage_is_judged_as_decode_image_does() -> None:
    whole = encoded(photograph(), "JPEG", quality=90)
    cut = whole[: len(whole) // 2]
    with pytest.raises(ValueError, match="truncated"):
        apply(Jpeg(), {"jpg": cut})
    filled, slow = both(cut, truncated="fill")
    assert filled["__truncated__"]
    assert numpy.array_equal(filled["image"], slow["image"])
    same(whole[:2] + b"\xff\xff\xff" + whole[3:])  # fill bytes before a marker
    same(whole + b"behind the end")
    for stage in (Jpeg(), Image()):
        with pytest.raises(ValueError, match="truncated"):
            apply(stage, {"jpg": whole[:-2]})  # its end mark is missing


def test_S4_the_limit_on_pixels_is_kept() -> None:
    data = encoded(noise(20, 30), "JPEG")
    with pytest.raises(ValueError, match=r"30 x 20 = 600 pixels; the limit is max_pixels=599"):
        apply(Jpeg(max_pixels=599), {"jpg": data})
    same(data, max_pixels=600)


def test_headers() -> None:
    data = encoded(noise(20, 30), "JPEG", exif=b"Exif\0\0" + exif(6))
    assert read_header(data) == (20, 30, 3, 6)
    assert read_header(encoded(noise(20, 30), "PNG")) is None
    assert read_header(encoded(Picture.fromarray(noise()).convert("CMYK"), "JPEG"))[2] == 4  # type: ignore[index]
    for length in range(len(data)):  # cut anywhere: no header, or the one there is
        assert read_header(data[:length]) in (None, (20, 30, 3, 6), (20, 30, 3, 1))
    frame = data.index(b"\xff\xc0")
    deep = data[: frame + 4] + b"\x0c" + data[frame + 5 :]
    assert read_header(deep) is None
    assert read_header(data[: frame + 2] + struct.pack(">H", 1) + data[frame + 4 :]) is None


# -- parts -----------------------------------------------------------------------------


def cropped(stage: Any, data: bytes, crop: Any, position: int, ask: bool) -> NDArray[Any]:
    if ask:
        stage = dataclasses.replace(stage, request=Request(crop, crop.name, "image"))
    sample = apply(stage, {"jpg": data}, position=position)
    image: NDArray[Any] = apply(crop, sample, position=position)["image"]
    return image


@pytest.mark.parametrize("stage", [Image(), Jpeg(margin=float("inf"))], ids=["image", "jpeg"])
@pytest.mark.parametrize("orientation", [1, 6])
@pytest.mark.parametrize(
    "crop",
    [RandomResizedCrop(64), CenterCrop(64), Resize(64), RandomResizedCrop(9, antialias=False)],
)
def test_crops_of_parts_equal_those_of_the_whole(stage: Any, orientation: int, crop: Any) -> None:
    data = encoded(photograph(size=(200, 130)), "JPEG", exif=b"Exif\0\0" + exif(orientation))
    for position in range(8):
        whole = cropped(Image(), data, crop, position, ask=False)
        assert numpy.array_equal(cropped(stage, data, crop, position, ask=True), whole)


def test_decode_image_makes_only_the_part() -> None:
    crop = CenterCrop(50)
    stage = Image(request=Request(crop, crop.name, "image"))
    sample = apply(stage, {"png": encoded(noise(200, 300), "PNG")})
    assert sample["image"].shape == (50, 50, 3)
    part = take_part(sample, "image")
    assert part is not None
    assert (part.whole, part.box) == ((200, 300), (0, 0, 50, 50))
    small = apply(stage, {"png": encoded(noise(20, 300), "PNG")})
    with pytest.raises(ValueError, match="make it large enough"):
        apply(crop, small)


def test_scales_only_where_the_crop_is_much_larger_than_its_result() -> None:
    stage = Jpeg()
    for height, least, scale in ((640, 160, 2), (639, 160, 1), (1280, 160, 4), (2560, 160, 8)):
        assert stage._scale(Region(0, 0, height, 3000, (least, least))) == scale
    assert stage._scale(Region(0, 0, 640, 500, (160, 160))) == 1  # the narrower side decides
    assert stage._scale(Region(0, 0, 9999, 9999, None)) == 1  # its pixels are used as they are
    assert Jpeg(margin=1.0)._scale(Region(0, 0, 320, 320, (160, 160))) == 2


def test_S5_scaled_decoding_stays_close_and_does_not_shift() -> None:
    """Odd sizes and boxes, so that the crop's box lies between the pixels of the lower scale."""
    crop = RandomResizedCrop(48, scale=(0.3, 1.0))
    values, shifts = [], []
    for number in (0, 1):
        data = encoded(photograph(number, size=(611, 403)), "JPEG", quality=90)
        for position in range(40):
            stage = dataclasses.replace(Jpeg(), request=Request(crop, crop.name, "image"))
            sample = apply(stage, {"jpg": data}, position=position)
            if sample["image"].shape[0] == 403:
                continue
            fast = apply(crop, sample, position=position)["image"]
            slow = cropped(Image(), data, crop, position, ask=False)
            values.append(psnr(fast, slow))
            shifts.append(shift(fast, slow))
    assert len(values) > 30
    assert numpy.mean(values) > 43
    assert min(values) > 38
    assert numpy.abs(numpy.mean(shifts, axis=0)).max() < 0.02
    # The measure sees a shift of a twentieth of a pixel in the picture of full size.
    moved = Picture.fromarray(slow).transform(
        (48, 48), Picture.Transform.AFFINE, (1, 0, 0.3, 0, 1, 0), Picture.Resampling.BICUBIC
    )
    assert abs(shift(numpy.array(moved), slow)[1]) > 0.15


def shift(one: NDArray[Any], other: NDArray[Any]) -> NDArray[numpy.float64]:
    """Return by how many pixels (down, right) two pictures differ, to first order.

    Least squares of their difference over the gradient of their mean (Lucas and Kanade, 1981).
    """
    grey = [picture[:, :, :3].astype(float).mean(2) for picture in (one, other)]
    rows, columns = numpy.gradient((grey[0] + grey[1]) / 2)
    slopes = numpy.stack([rows.ravel(), columns.ravel()], axis=1)
    found, *_ = numpy.linalg.lstsq(slopes, (grey[1] - grey[0]).ravel(), rcond=None)
    moved: NDArray[numpy.float64] = found
    return moved


def test_a_turned_picture_is_never_scaled() -> None:
    crop = Resize(16)
    data = encoded(photograph(size=(200, 130)), "JPEG", exif=b"Exif\0\0" + exif(6))
    stage = Jpeg(request=Request(crop, crop.name, "image"))
    assert apply(stage, {"jpg": data})["image"].shape == (200, 130, 3)


def test_draws_are_those_of_the_crop() -> None:
    crop = RandomResizedCrop(32)
    stage = Jpeg(request=Request(crop, crop.name, "image"))
    sample = stage.apply({"jpg": encoded(photograph(), "JPEG")}, Rng(3, stage.name).move(2, 7))
    part = take_part(sample, "image")
    assert part is not None
    assert part.region == crop.region("image", 427, 640, Rng(3, CROP).move(2, 7))


def test_the_documented_decoder_of_regions_keeps_the_contract(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Crops of what it gives equal those of the whole, and it decodes no more than they use."""
    boxes = []

    def decode(data: bytes, box: tuple[int, int, int, int]) -> NDArray[Any]:
        boxes.append(box)
        top, left, bottom, right = box
        image: NDArray[Any] = apply(Image(), {"jpg": data})["image"]
        return image[top:bottom, left:right].copy()

    def size(data: bytes) -> tuple[int, ...]:
        return (read_header(data) or ())[:2]

    text = inspect.getdoc(jpeg) or ""
    block = text[text.index("    @dataclass") : text.index("The pixels inside")]
    module: Any = types.ModuleType("acme")
    monkeypatch.setitem(sys.modules, "acme", module)
    module.tiles = types.SimpleNamespace(size=size, decode=decode)
    module.__dict__.update(dataclass=dataclass, Decoder=Decoder, ClassVar=ClassVar, Part=Part)
    exec(textwrap.dedent(block), module.__dict__)
    check_stage(module.Tiles())
    data = encoded(photograph(size=(200, 130)), "JPEG")
    for crop in (RandomResizedCrop(24), CenterCrop(64), Resize(50)):
        for position in range(6):
            whole = cropped(Image(), data, crop, position, ask=False)
            assert numpy.array_equal(cropped(module.Tiles(), data, crop, position, ask=True), whole)
    assert (33, 68, 97, 132) in boxes  # of the crop from the middle
    assert apply(module.Tiles(), {"jpg": data})["image"].shape == (130, 200, 3)
