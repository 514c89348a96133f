from __future__ import annotations

import gc

import numpy as np
import pytest
import torch
from PIL import Image

from stoker_plugins.arrays import as_tensor, tensor_dtype


def test_shares_memory():
    array = np.zeros((2, 3), np.uint8)
    tensor = as_tensor(array)
    array[1, 2] = 7
    assert tensor[1, 2] == 7


def test_read_only_arrays_share_memory_without_a_warning():
    array = np.zeros((2, 3), np.uint8)
    view = array.view()
    view.flags.writeable = False
    tensor = as_tensor(view)  # a warning would be an error here
    array[0, 1] = 5
    assert tensor[0, 1] == 5
    assert not view.flags.writeable


def test_memory_of_a_read_only_array_lives_as_long_as_the_tensor():
    tensor = as_tensor(np.frombuffer(bytes(range(256)) * 64, np.uint8))
    gc.collect()
    other = [bytes(len(tensor)) for _ in range(50)]
    assert tensor.tolist() == list(range(256)) * 64
    assert len(other) == 50


def test_pictures_of_pillow_need_no_warning():
    pixels = np.asarray(Image.new("RGB", (4, 2), (1, 2, 3)))
    assert as_tensor(pixels).tolist() == [[[1, 2, 3]] * 4] * 2


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.uint8)[::-1],
        np.arange(6, dtype=">u2"),
        np.arange(6, dtype=">f4")[::-1],
        np.zeros(6, np.dtype([("a", "u1"), ("b", "<i4")]))["b"],
        np.zeros((0, 3), np.uint8),
        np.array(3.5),
    ],
)
def test_what_torch_cannot_view_is_copied(array):
    tensor = as_tensor(array)
    assert tensor.tolist() == array.tolist()
    assert tuple(tensor.shape) == array.shape


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("u1", torch.uint8),
        ("u2", torch.uint16),
        (">u2", torch.uint16),
        ("f4", torch.float32),
        ("?", torch.bool),
        ("c8", torch.complex64),
        ("O", None),
        ("U3", None),
        ("S0", None),
        ("M8[s]", None),
        ("V0", None),
    ],
)
def test_tensor_dtype(dtype, expected):
    assert tensor_dtype(np.dtype(dtype)) is expected
