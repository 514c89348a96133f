from __future__ import annotations

import functools
import pickle
import random

import numpy as np
import pytest
import torch
from PIL import Image

from stoker import Pipeline
from stoker.engine.plan import make_plan
from stoker.errors import PlanError
from stoker.parameters import faults, parse
from stoker.stages import Surroundings
from stoker.testing import apply, check_stage
from stoker_plugins import cache, collate, read
from stoker_plugins.augment.apply import Apply
from tests.plugins.augment.pictures import frozen, noise


def brighten(image):
    image += np.uint8(1)
    return image


def turn(image):
    return image[:, ::-1]


def jitter(image, *, rng):
    draws = (rng.numpy.integers(100), rng.random.randrange(100), torch.rand(1, generator=rng.torch))
    return [float(draw) for draw in draws]


def keep_odd(sample):
    return sample if sample["label"] % 2 else None


def forget(value):
    value + 1


class Albumentations:
    """Called with keywords only, gives a dict."""

    def __call__(self, *args, force_apply=False, **data):
        assert not args
        return {name: value[::-1] for name, value in data.items()}


def problems(stage):
    return list(stage.check(Surroundings((stage,), 0)))


def test_contract():
    check_stage(Apply(brighten, field="image"))
    check_stage(Apply(lambda sample: sample))
    assert pickle.loads(pickle.dumps(Apply(brighten))) == Apply(brighten)


def test_on_a_field():
    out = apply(Apply(lambda label: label + 1, field="label"), {"__key__": "a", "label": 1})
    assert out == {"__key__": "a", "label": 2}


def test_on_the_whole_sample():
    def function(sample):
        sample["twice"] = 2 * sample["label"]
        return sample

    assert apply(Apply(function), {"__key__": "a", "label": 3})["twice"] == 6


def test_whole_samples_keep_where_they_came_from():
    sample = {"__key__": "a", "__url__": "s.tar", "label": 3}
    out = apply(Apply(lambda sample: {"target": sample["label"]}), sample)
    assert out == {"__key__": "a", "__url__": "s.tar", "target": 3}


def test_several_fields_as_keywords():
    sample = {"image": noise(4, 4), "mask": noise(4, 4, 1), "label": 1}
    before = {name: np.copy(value) for name, value in sample.items()}
    out = apply(Apply(Albumentations(), field=("image", "mask")), sample)
    for name in ("image", "mask"):
        assert (out[name] == before[name][::-1]).all()
        assert out[name].flags.c_contiguous
    assert out["label"] == 1


def test_B18_in_place_functions_do_not_reach_a_cached_picture():
    cached = noise(4, 4)
    before = cached.copy()
    for stage in (Apply(brighten, field="image"), Apply(lambda s: {"image": brighten(s["image"])})):
        for _ in range(2):
            out = apply(stage, {"image": frozen(cached)})["image"]
            assert (cached == before).all()
            assert (out == before + np.uint8(1)).all()


def test_B18_nested_values_are_copied_too():
    boxes = {"list": [np.zeros(2), (torch.zeros(2), "x")]}

    def function(value):
        value["list"][0] += 1
        value["list"][1][0].add_(1)
        value["list"].append(None)
        return value

    out = apply(Apply(function, field="boxes"), {"boxes": boxes})["boxes"]
    assert out["list"][0].tolist() == [1, 1]
    assert boxes["list"][0].tolist() == [0, 0]
    assert boxes["list"][1][0].tolist() == [0, 0]
    assert len(boxes["list"]) == 2


def test_copies_can_be_spared():
    image = noise(4, 4)
    seen = []
    apply(
        Apply(lambda value: seen.append(value) or value, field="image", copies=False),
        {"image": image},
    )
    assert seen[0] is image


def test_B18_results_are_dense():
    image = noise(4, 6)
    out = apply(Apply(turn, field="image"), {"image": image})["image"]
    assert out.flags.c_contiguous
    assert (out == image[:, ::-1]).all()
    whole = apply(Apply(lambda s: {"t": torch.zeros(3, 4).T, "n": np.float64(1)}), {})
    assert whole["t"].is_contiguous()
    assert isinstance(whole["n"], np.float64)


@pytest.mark.parametrize(
    ("mode", "shape"),
    [
        ("RGB", (2, 3, 3)),
        ("L", (2, 3, 1)),
        ("LA", (2, 3, 2)),
        ("P", (2, 3, 3)),
        ("CMYK", (2, 3, 3)),
        ("1", (2, 3, 3)),
        ("I;16", (2, 3, 1)),
    ],
)
def test_pictures_of_pillow_become_arrays(mode, shape):
    out = apply(Apply(lambda image: Image.new(mode, (3, 2)), field="image"), {"image": 0})["image"]
    assert out.shape == shape
    assert out.dtype == (np.uint16 if mode == "I;16" else np.uint8)


def test_B17_rng_is_handed_to_those_who_ask_for_it():
    stage = Apply(jitter, field="image")
    places = [(s, e, p) for s in range(2) for e in range(2) for p in range(2)]

    def run(order):
        return {
            (s, e, p): tuple(apply(stage, {"image": 0}, seed=s, epoch=e, position=p)["image"])
            for s, e, p in order
        }

    random.seed(1)
    torch.manual_seed(1)
    forward = run(places)
    assert forward == run(places[::-1])
    for face in range(3):
        assert len({draws[face] for draws in forward.values()}) > 4


def test_rng_reaches_partials_and_keyword_calls():
    scaled = functools.partial(lambda scale, image, rng: scale * rng.random.random(), 2.0)
    assert 0 <= apply(Apply(scaled, field="image"), {"image": 0})["image"] <= 2
    bound = functools.partial(lambda image, rng: rng, rng="own")
    assert apply(Apply(bound, field="image"), {"image": 0})["image"] == "own"
    both = apply(Apply(lambda *, a, rng: {"a": rng.seed}, field=("a",)), {"a": 0})
    assert both["a"] > 0


def test_functions_that_tell_no_signature():
    assert apply(Apply(int, field="label"), {"label": "7"}) == {"label": 7}
    assert apply(Apply(max, field="label"), {"label": [3, 9]}) == {"label": 9}


def test_drops():
    stage = Apply(keep_odd, drops=True)
    assert stage.drops is True
    assert Apply(keep_odd).drops is False
    assert apply(stage, {"label": 2}) is None
    assert apply(stage, {"label": 3}) == {"label": 3}
    assert apply(Apply(lambda label: None, field="label", drops=True), {"label": 3}) is None


def test_that_it_draws_nothing_is_declared():
    stage = Apply(brighten, field="image", deterministic=True)
    assert stage.deterministic is True
    assert Apply(brighten).deterministic is False
    assert repr(stage).endswith("drops=False, deterministic=True)")
    assert parse(Apply, "augment.apply", "deterministic", "true") is True
    assert not [*faults(stage), *problems(stage)]
    assert list(faults(Apply(brighten, deterministic="yes")))  # type: ignore[arg-type]
    (problem,) = problems(Apply(jitter, deterministic=True))
    assert problem == f"deterministic=True, but {__name__}.jitter takes an rng to draw from"
    assert not problems(Apply(jitter))


def test_a_cache_stands_behind_what_is_declared_only():
    def refusals(stage):
        cached = Pipeline("p", read.Synthetic(4), stage, cache.Memory(), collate.Stack(2))
        try:
            make_plan(cached)
        except PlanError as error:
            return str(error)
        return ""

    assert refusals(Apply(brighten, field="image", deterministic=True)) == ""
    assert "augment.apply may make something else" in refusals(Apply(brighten, field="image"))


@pytest.mark.parametrize("field", [None, "label", ("label",)])
def test_a_forgotten_return_is_an_error(field):
    def forgets(sample=None, label=None):
        return None

    with pytest.raises(TypeError, match=r"forgets returned None; allowed is .*drops=True"):
        apply(Apply(forgets, field=field), {"label": 2})


def test_a_value_in_place_of_a_sample_is_an_error():
    with pytest.raises(TypeError, match=r'returned 3; allowed is a dict of fields \(field="NAME"'):
        apply(Apply(lambda sample: 3), {"label": 2})


def test_a_missing_field_lists_those_there():
    for field in ("image", ("label", "image")):
        with pytest.raises(KeyError, match="no field 'image'; the sample has: label"):
            apply(Apply(brighten, field=field), {"label": 2})


def test_errors_of_the_function_pass_unchanged():
    with pytest.raises(TypeError, match="can only concatenate str"):
        apply(Apply(forget, field="label"), {"label": "text"})


def test_what_cannot_be_called_is_found_before_the_run():
    (problem,) = [*faults(Apply(3)), *problems(Apply(3))]  # type: ignore[arg-type]
    assert problem.startswith("function=3 cannot be called; allowed is a function")
    assert not problems(Apply(brighten))
    assert not list(faults(Apply(brighten, field=("a", "b"))))


def test_repr_names_the_function():
    assert repr(Apply(brighten, field="image")) == (
        f"Apply(function={__name__}.brighten, field='image', copies=True, drops=False)"
    )
    assert f"{__name__}.Albumentations(...)" in repr(Apply(Albumentations()))
    assert "partial(builtins.int, ...)" in repr(Apply(functools.partial(int, base=2)))
