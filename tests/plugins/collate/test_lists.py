from __future__ import annotations

import numpy as np
import pytest

from stoker.testing import assemble, check_stage
from stoker_plugins.collate.lists import List


def test_contract():
    check_stage(List(4))
    assert List.kind == "collate"


def test_B13_values_of_any_shape_stay_as_they_are():
    images = [np.zeros((8, 8, 3)), np.zeros((8, 9, 1))]
    samples = [
        {"__key__": f"k{i}", "__offset__": 0, "image": image, "label": i}
        for i, image in enumerate(images)
    ]
    batch = assemble(List(2), samples)
    assert batch == {"__key__": ["k0", "k1"], "image": images, "label": [0, 1]}
    assert batch["image"][1] is images[1]


def test_B13_a_field_that_some_samples_lack():
    with pytest.raises(ValueError, match="field 'x' is in 'a' but missing in 'b'"):
        assemble(List(2), [{"__key__": "a", "x": 1}, {"__key__": "b"}])
