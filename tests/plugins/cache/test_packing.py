from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from stoker_plugins.cache.packing import ALIGNMENT, address_of, pack, unpack
from tests.plugins.cache.trees import same, samples

addresses = st.recursive(
    st.integers() | st.text(max_size=9) | st.binary(max_size=9) | st.none() | st.booleans(),
    lambda inner: st.tuples(inner, inner),
    max_leaves=4,
)


def record(address: Any, sample: dict[str, Any]) -> bytes:
    return b"".join(bytes(part) for part in pack(address, sample))


@given(addresses, samples)
def test_what_is_packed_comes_back(address: Any, sample: dict[str, Any]) -> None:
    data = record(address, sample)
    found, again = unpack(data)
    assert found == address
    assert address_of(data) == address
    assert same(again, sample)
    assert len(data) % ALIGNMENT == 0


def test_arrays_are_dense_read_only_and_aligned() -> None:
    view = np.arange(60, dtype=np.float64).reshape(3, 4, 5)[:, ::-1, ::2]
    _, sample = unpack(record(1, {"text": "abc", "view": view, "bytes": b"abc"}))
    assert np.array_equal(sample["view"], view)
    assert sample["view"].flags.c_contiguous
    assert sample["view"].flags.aligned
    assert not sample["view"].flags.writeable


def test_a_tensor_is_its_receivers_own() -> None:
    tensor = torch.arange(4.0, requires_grad=True)
    _, sample = unpack(record(1, {"x": tensor}))
    sample["x"] += 1
    assert tensor.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (object(), "object"),
        ({1, 2}, "set"),
        (np.array([None]), "an array of object"),
        (np.zeros(2, [("a", "i4")]), "an array of"),
        (torch.eye(2).to_sparse(), "Tensor"),
        ([{"a": object()}], "object"),
        (np.ma.masked_array([1, 2], [True, False]), "MaskedArray"),
        (np.zeros(2, "V3")[0], "void"),
        (torch.zeros(2, device="meta"), "Tensor"),
    ],
)
def test_what_cannot_be_told_in_bytes_is_refused_by_its_name(value: Any, named: str) -> None:
    with pytest.raises(TypeError, match=f"field 'odd' holds {named}"):
        pack(1, {"odd": value})


def test_a_conjugate_view_is_told_by_its_values() -> None:
    tensor = torch.tensor([1 + 2j, 3 - 4j]).conj()
    _, sample = unpack(record(1, {"x": tensor, "y": tensor.imag}))
    assert sample["x"].tolist() == [1 - 2j, 3 + 4j]
    assert sample["y"].tolist() == [-2.0, 4.0]


def test_text_of_all_kinds_comes_back() -> None:
    sample = {"\0": '\0\ud800\U0001f600"\\', "float": [float("inf"), -0.0, 1e-320], "n": 1 - 2j}
    assert same(unpack(record("\0", sample)), ("\0", sample))


def test_an_address_that_cannot_be_told_is_refused() -> None:
    with pytest.raises(TypeError, match="a sample at address <object"):
        pack(object(), {})
