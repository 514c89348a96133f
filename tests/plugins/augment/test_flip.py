from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from stoker.parameters import faults
from stoker.testing import apply, check_stage
from stoker_plugins.augment.flip import Flip
from tests.plugins.augment.pictures import frozen, noise


def test_contract():
    check_stage(Flip())
    assert list(faults(Flip(p=1.5)))
    assert list(faults(Flip(p=-0.1)))


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 7, 3), (32, 33, 1), (6, 8, 4), (224, 224, 3)])
def test_B18_a_flip_is_dense_and_equals_numpys(shape):
    image = noise(*shape)
    before = image.copy()
    out = apply(Flip(p=1.0), {"image": frozen(image)})["image"]
    assert (out == before[:, ::-1]).all()
    assert (image == before).all()
    assert out.flags.c_contiguous
    assert min(out.strides) > 0
    assert not np.shares_memory(out, image)


def test_B18_views_of_any_kind_are_flipped():
    image = noise(6, 8)
    views = (
        image[:, ::-1],
        image[::-1],
        image[1:5, 2:7],
        image.transpose(1, 0, 2),
        np.broadcast_to(image[:1], (6, 8, 3)),
        noise(3, 6, 8).transpose(1, 2, 0),
    )
    for view in views:
        out = apply(Flip(p=1.0), {"image": view})["image"]
        assert (out == view[:, ::-1]).all()
        assert out.flags.c_contiguous


@pytest.mark.parametrize("dtype", ["bool", "uint16", "uint32", "int32", "float32", ">u2"])
@pytest.mark.parametrize("channels", [1, 3])
def test_any_dtype(dtype, channels):
    image = noise(4, 6, channels).astype(dtype)
    assert (apply(Flip(p=1.0), {"image": image})["image"] == image[:, ::-1]).all()


def test_pictures_of_pillow_need_no_warning():
    picture = Image.fromarray(noise(4, 6))
    out = apply(Flip(p=1.0), {"image": np.asarray(picture)})["image"]
    assert (out == np.asarray(picture)[:, ::-1]).all()


def test_unflipped_pictures_are_handed_on():
    image = noise(4, 6)
    assert apply(Flip(p=0.0), {"image": image})["image"] is image


def test_p_is_the_share():
    image = noise(1, 2)
    flipped = sum(
        (apply(Flip(p=0.25), {"image": image}, position=i)["image"] != image).any()
        for i in range(1000)
    )
    assert 200 < flipped < 300


def test_B17_draws_depend_on_seed_epoch_and_position_only():
    image = noise(1, 2)

    def run(order):
        flips = {}
        for seed, epoch, position in order:
            out = apply(Flip(), {"image": image}, seed=seed, epoch=epoch, position=position)
            flips[seed, epoch, position] = bool((out["image"] != image).any())
        return flips

    places = [(s, e, p) for s in range(2) for e in range(2) for p in range(32)]
    one, other = run(places), run(places[::-1])
    assert one == other
    parts = [tuple(one[s, e, p] for p in range(32)) for s in range(2) for e in range(2)]
    assert len(set(parts)) == 4
