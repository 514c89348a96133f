"""Anything as strict JSON."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.jsonable import to_json


def strict(text: str) -> Any:
    def refuse(word: str) -> Any:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize(
    ("thing", "plain"),
    [
        (math.nan, None),
        ([math.inf, -math.inf, 1.5], [None, None, 1.5]),
        ({"a": {"b": math.nan}}, {"a": {"b": None}}),
        (True, True),
        (np.int64(3), 3),
        (np.float32(0.5), 0.5),
        (np.float64("nan"), None),
        (np.bool_(True), True),
        (torch.tensor(2.5), 2.5),
        (torch.tensor(float("nan")), None),
        ((1, 2), [1, 2]),
        ({3}, [3]),
        ({1: "x", None: "y"}, {"1": "x", "None": "y"}),
        (Path("a/b"), "a/b"),
        (b"x", "b'x'"),
        ("µs", "µs"),
    ],
    ids=repr,
)
def test_what_json_has_no_word_for_becomes_null_or_text(thing: Any, plain: Any) -> None:
    for indent in (None, 1):
        assert strict(to_json(thing, indent=indent)) == plain


TEXT = st.text('ab µ\n"\\')
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=12,
)  # fmt: skip


@given(JSON)
@settings(max_examples=40, deadline=None)
def test_what_is_json_stays_as_it_is(thing: Any) -> None:
    assert strict(to_json(thing)) == thing
    assert "\n" not in to_json(thing)
