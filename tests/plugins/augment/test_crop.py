from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.parameters import faults
from stoker.rng import Rng
from stoker.stages import Surroundings
from stoker.testing import apply, check_stage
from stoker_plugins.augment.crop import CenterCrop, RandomResizedCrop, draw_box
from stoker_plugins.augment.resample import Box
from tests.plugins.augment.pictures import frozen, noise, smooth


def rng(position=0, seed=0):
    return Rng(seed, "test").move(0, position)


def check(stage):
    return list(stage.check(Surroundings((stage,), 0)))


# -- the box ---------------------------------------------------------------------------


@given(
    height=st.integers(1, 400),
    width=st.integers(1, 400),
    seed=st.integers(0, 2**32),
    low=st.floats(0.01, 1.0),
    ratio=st.floats(1.0, 5.0),
)
def test_boxes_lie_inside_the_picture(height, width, seed, low, ratio):
    box = draw_box(height, width, rng(seed=seed), (low, 1.0), (1 / ratio, ratio))
    assert 0 <= box.top <= box.top + box.height <= height
    assert 0 <= box.left <= box.left + box.width <= width
    assert box.height > 0
    assert box.width > 0


def test_boxes_follow_the_published_rule():
    boxes = [draw_box(1000, 1000, rng(i), (0.08, 0.5)) for i in range(3000)]  # all fit
    share = np.array([box.height * box.width for box in boxes]) / 1e6
    aspect = np.log([box.width / box.height for box in boxes])
    quartiles = np.quantile(share, [0, 0.25, 0.5, 0.75, 1])
    assert np.abs(quartiles - [0.08, 0.185, 0.29, 0.395, 0.5]).max() < 0.015  # uniform
    limit = np.log(4 / 3) + 0.005
    assert np.abs(aspect).max() < limit
    assert abs(aspect.mean()) < 0.01
    assert abs(np.mean(np.abs(aspect) < limit / 2) - 0.5) < 0.05  # log-uniform
    centre = np.array([(box.top + box.height / 2, box.left + box.width / 2) for box in boxes])
    assert np.abs(centre.mean(0) - 500).max() < 10


@pytest.mark.parametrize(
    ("height", "width", "expected"),
    [
        (100, 1000, Box(0, 433, 100, 133)),  # too wide: the ratio's upper end, central
        (1000, 100, Box(433, 0, 133, 100)),
    ],
)
def test_what_never_fits_is_cropped_centrally(height, width, expected):
    assert draw_box(height, width, rng(), (0.9, 1.0)) == expected


def test_an_allowed_aspect_that_never_fits_is_the_whole_picture():
    assert draw_box(50, 60, rng(), (4.0, 4.0)) == Box(0, 0, 50, 60)


# -- RandomResizedCrop -----------------------------------------------------------------


def test_contract():
    check_stage(RandomResizedCrop(224))
    check_stage(CenterCrop((3, 4)))


@pytest.mark.parametrize("size", [32, (24, 40)])
def test_gives_the_size_asked_for_dense(size):
    crop = RandomResizedCrop(size)
    for position in range(8):
        out = apply(crop, {"image": noise(70, 90)}, position=position)["image"]
        assert out.shape == ((32, 32, 3) if size == 32 else (24, 40, 3))
        assert out.dtype == np.uint8
        assert out.flags.c_contiguous
        assert min(out.strides) > 0


def test_the_crop_shows_the_box():
    ramp = np.broadcast_to(np.arange(200, dtype=np.uint8)[:, None, None], (200, 200, 3))
    out = apply(RandomResizedCrop(50), {"image": ramp}, seed=3)["image"]
    stage_rng = Rng(3, "augment.random_resized_crop").move(0, 0)
    box = draw_box(200, 200, stage_rng)
    expected = box.top + (np.arange(50) + 0.5) * box.height / 50 - 0.5
    assert np.abs(out[:, 7, 1] - expected).max() <= 1.5


def test_B17_draws_depend_on_seed_epoch_and_position_only():
    crop, image = RandomResizedCrop(16), smooth(60, 80)

    def run(**place):
        return apply(crop, {"image": image}, **place)["image"].tobytes()

    places = [
        {"seed": s, "epoch": e, "position": p} for s in (0, 1) for e in (0, 1) for p in (0, 1, 2)
    ]
    forward = [run(**place) for place in places]
    backward = [run(**place) for place in reversed(places)][::-1]
    assert forward == backward
    assert len(set(forward)) == len(places)


def test_B18_the_picture_is_not_changed_and_read_only_ones_serve():
    image = noise(40, 50)
    before = image.copy()
    for given_image in (image, frozen(image)):
        out = apply(RandomResizedCrop(20), {"image": given_image})["image"]
        out[:] = 0
        assert (image == before).all()


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 13])
def test_any_number_of_channels(channels):
    image = noise(40, 40, channels)
    out = apply(RandomResizedCrop(16), {"image": image})["image"]
    alone = apply(RandomResizedCrop(16), {"image": image[..., -1:]})["image"]
    assert out.shape == (16, 16, channels)
    assert np.abs(out[..., -1:].astype(int) - alone).max() <= 1


def test_other_fields_and_names():
    sample = {"__key__": "a", "photo": noise(30, 30), "label": 3}
    out = apply(RandomResizedCrop(8, field="photo"), sample)
    assert out["photo"].shape == (8, 8, 3)
    assert (out["__key__"], out["label"]) == ("a", 3)


def test_a_missing_field_lists_those_there():
    with pytest.raises(KeyError, match="no field 'image'; the sample has: jpg, label"):
        apply(RandomResizedCrop(8), {"__key__": "a", "jpg": b"", "label": 1})


@pytest.mark.parametrize("value", [b"raw", np.zeros((4, 4), np.uint8)])
def test_what_is_no_picture_is_named(value):
    with pytest.raises(TypeError, match=r"'image' holds .*decode\.Image"):
        apply(RandomResizedCrop(8), {"image": value})


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        (RandomResizedCrop((0, 4)), "size="),
        (RandomResizedCrop(4, scale=(0.0, 1.0)), "scale="),
        (RandomResizedCrop(4, scale=(0.9, 0.1)), "scale="),
        (RandomResizedCrop(4, ratio=(2.0, 1.0)), "ratio="),
        (CenterCrop((4, -1)), "size="),
    ],
)
def test_wrong_parameters_are_found_before_the_run(stage, words):
    problems = check(stage)
    assert len(problems) == 1
    assert words in problems[0]
    assert "allowed is" in problems[0]


def test_types_and_bounds_are_judged_by_the_parameters():
    assert list(faults(RandomResizedCrop(0)))
    assert list(faults(RandomResizedCrop("big")))  # type: ignore[arg-type]
    assert not list(faults(RandomResizedCrop([8, 8])))  # type: ignore[arg-type]
    assert not check(RandomResizedCrop(8))


def test_travels():
    crop = dataclasses.replace(RandomResizedCrop(8), scale=(0.5, 1.0))
    assert pickle.loads(pickle.dumps(crop)) == crop


# -- CenterCrop ------------------------------------------------------------------------


def test_center_crop_is_the_centre():
    image = noise(9, 13)
    out = apply(CenterCrop((5, 7)), {"image": image})["image"]
    assert (out == image[2:7, 3:10]).all()
    assert out.flags.c_contiguous


def test_center_crop_rounds_as_torchvision_does():
    image = noise(8, 9)
    out = apply(CenterCrop(5), {"image": image})["image"]
    assert (out == image[2:7, 2:7]).all()  # margins of 3 and 4: 1.5 rounds to even


def test_B18_a_center_crop_is_no_view():
    image = noise(8, 8)
    for size in ((4, 8), (4, 4)):
        out = apply(CenterCrop(size), {"image": frozen(image)})["image"]
        out[:] = 0
        assert image.any()


def test_center_crop_of_all_is_the_picture():
    image = noise(6, 6)
    assert apply(CenterCrop(6), {"image": image})["image"] is image


def test_center_crop_needs_a_picture_large_enough():
    with pytest.raises(ValueError, match=r"4 x 9.*of a picture of 8 x 8.*Resize\(9\)"):
        apply(CenterCrop((4, 9)), {"image": noise(8, 8)})
