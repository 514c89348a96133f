from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from stoker.testing import assemble, check_stage
from stoker_plugins.collate.stack import Stack


def samples_of(field, values, **more):
    return [
        {"__key__": f"k{i}", "__url__": "s.tar", field: value, **more}
        for i, value in enumerate(values)
    ]


def stacked(values):
    return assemble(Stack(8), samples_of("x", values))["x"]


def test_contract():
    check_stage(Stack(4))
    assert Stack.kind == "collate"


def test_a_batch_of_everything():
    samples = [
        {
            "__key__": f"k{i}",
            "__url__": "s.tar",
            "__offset__": 512 * i,
            "image": np.full((2, 3, 3), i, np.uint8),
            "label": i,
            "weight": i / 2,
            "valid": i == 1,
            "text": f"t{i}",
            "raw": b"r",
            "boxes": [[0] * 4] * (i + 1),
            "meta": {"i": i},
            "latent": torch.full((2,), float(i)),
            "nothing": None,
        }
        for i in range(3)
    ]
    batch = assemble(Stack(3), samples)
    assert list(batch) == [
        "__key__", "__url__", "image", "label", "weight", "valid", "text", "raw", "boxes",
        "meta", "latent", "nothing",
    ]  # fmt: skip
    assert batch["__key__"] == ["k0", "k1", "k2"]
    assert batch["__url__"] == ["s.tar"] * 3
    assert batch["image"].shape == (3, 2, 3, 3)
    assert batch["image"].dtype == torch.uint8
    assert batch["image"][:, 0, 0, 0].tolist() == [0, 1, 2]
    assert batch["label"].dtype == torch.int64
    assert batch["label"].tolist() == [0, 1, 2]
    assert batch["weight"].dtype == torch.float32
    assert batch["weight"].tolist() == [0, 0.5, 1]
    assert batch["valid"].dtype == torch.bool
    assert batch["valid"].tolist() == [False, True, False]
    assert batch["latent"].equal(torch.tensor([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]))
    assert batch["text"] == ["t0", "t1", "t2"]
    assert batch["raw"] == [b"r"] * 3
    assert [len(boxes) for boxes in batch["boxes"]] == [1, 2, 3]
    assert batch["meta"][2] is samples[2]["meta"]
    assert batch["nothing"] == [None] * 3


def test_every_tensor_lies_in_memory_that_was_given():
    given_out = []

    def alloc(shape, dtype):
        assert type(shape) is tuple
        given_out.append(torch.empty(shape, dtype=dtype))
        return given_out[-1]

    samples = samples_of("image", [np.zeros((2, 2, 1), np.uint8)] * 3, label=1, score=0.5, ok=True)
    batch = Stack(3).assemble(samples, alloc)
    for name, memory in zip(("image", "label", "score", "ok"), given_out, strict=True):
        assert batch[name] is memory


def test_memory_may_have_held_something_else():
    def alloc(shape, dtype):
        return torch.full(shape, 77).to(dtype)

    batch = Stack(3).assemble(samples_of("x", [np.arange(3), np.arange(3)], label=0), alloc)
    assert batch["x"].tolist() == [[0, 1, 2]] * 2
    assert batch["label"].tolist() == [0, 0]


@given(st.data())
def test_equals_numpys_stack(data):
    dtype = np.dtype(data.draw(st.sampled_from(["u1", "i2", "f4", "f8", "?", ">i4", "f2"])))
    shape = tuple(data.draw(st.lists(st.integers(0, 4), max_size=3)))
    count = data.draw(st.integers(1, 5))
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    arrays = [generator.integers(0, 2, shape).astype(dtype) for _ in range(count)]
    out = stacked(arrays)
    assert out.numpy().tolist() == np.stack(arrays).tolist()
    assert tuple(out.shape) == (count, *shape)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("uint16", torch.uint16),
        ("uint32", torch.uint32),
        ("float16", torch.float16),
        ("float64", torch.float64),
        ("complex64", torch.complex64),
        ("bool", torch.bool),
    ],
)
def test_dtypes_are_kept(dtype, expected):
    out = stacked([np.ones((2, 2), dtype), np.zeros((2, 2), dtype)])
    assert out.dtype is expected
    assert out.numpy()[:, 0, 0].tolist() == [1, 0]


def test_numpy_scalars_keep_their_dtype():
    out = stacked([np.float64(0.1), np.float64(0.2)])
    assert out.dtype is torch.float64
    assert out.shape == (2,)
    assert stacked([np.int32(4)]).dtype is torch.int32
    assert stacked([np.bool_(True)]).dtype is torch.bool


def test_arrays_and_tensors_mix_and_gradients_end_here():
    weights = torch.ones(2, requires_grad=True)
    out = stacked([np.zeros(2, np.float32), weights])
    assert out.tolist() == [[0, 0], [1, 1]]
    assert not out.requires_grad


def test_B18_views_and_read_only_arrays_are_copied_without_a_warning():
    base = np.arange(24, dtype=np.uint8).reshape(4, 6)
    picture = np.asarray(Image.new("L", (6, 4), 9))
    locked = base.view()
    locked.flags.writeable = False
    out = stacked([base[:, ::-1], locked, picture, base[::-1]])
    assert (out.numpy() == np.stack([base[:, ::-1], base, picture, base[::-1]])).all()
    out.zero_()
    assert base.any()
    assert picture.any()


def test_arrays_that_torch_does_not_know_become_lists():
    words = np.array(["a", "b"])
    objects = np.array([None, {}], dtype=object)
    assert stacked([words, words]) == [words, words]
    assert stacked([objects])[0] is objects


def test_whole_and_broken_numbers_mix():
    assert stacked([1, 0.5]).dtype is torch.float32
    assert stacked([1, 0.5]).tolist() == [1, 0.5]
    assert stacked([2**62, -(2**63)]).tolist() == [2**62, -(2**63)]


@pytest.mark.parametrize("values", [[1, 2**63], [0.5, 10**400]])
def test_numbers_out_of_range_are_named(values):
    with pytest.raises(ValueError, match=r"field 'x' has numbers beyond torch\.\w+, such as \d"):
        stacked(values)


def test_B13_shapes_that_differ():
    arrays = [np.zeros((8, 8, 3)), np.zeros((8, 9, 3)), np.zeros((8, 8, 3)), np.zeros((8, 8, 1))]
    with pytest.raises(ValueError, match="shape") as caught:
        stacked(arrays)
    text = str(caught.value)
    assert "field 'x' has shape (8, 8, 3) in 'k0' but (8, 9, 3) in 'k1', 'k3'" in text
    for remedy in ("RandomResizedCrop", "CenterCrop", "collate.List"):
        assert remedy in text


def test_B13_shapes_that_torch_would_broadcast():
    with pytest.raises(ValueError, match=r"shape \(2, 3\) in 'k0' but \(1, 3\) in 'k1'"):
        stacked([np.zeros((2, 3)), np.zeros((1, 3))])
    with pytest.raises(ValueError, match=r"shape \(2,\) in 'k0' but \(\) in 'k1'"):
        stacked([np.zeros(2), np.float64(1)])


def test_B13_lists_of_other_lengths_stay_lists():
    boxes = [[[1, 2, 3, 4]], [[1, 2, 3, 4], [5, 6, 7, 8]]]
    assert stacked(boxes) == boxes


def test_B13_dtypes_that_differ():
    message = r"dtype torch\.uint8 in 'k0' but torch\.float32 in 'k1'; .*augment\.Apply"
    with pytest.raises(TypeError, match=message):
        stacked([np.zeros(2, np.uint8), np.zeros(2, np.float32)])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([1, "one"], "holds int in 'k0' but str in 'k1'"),
        ([None, 3], "holds NoneType in 'k0' but int in 'k1'"),
        ([np.zeros(2), 3], "holds ndarray in 'k0' but int in 'k1'"),
        ([True, 3], "holds bool in 'k0' but int in 'k1'"),
    ],
)
def test_B13_types_that_differ(values, words):
    with pytest.raises(TypeError, match=words):
        stacked(values)


def test_B13_a_field_that_some_samples_lack():
    samples = samples_of("x", [1, 2, 3, 4, 5, 6], label=0)
    for index in (1, 2, 3, 5):
        del samples[index]["label"]
    del samples[2]["__key__"]
    expected = (
        "field 'label' is in 'k0' but missing in 'k1', sample #2 (it has no key), 'k3' and 1 more"
    )
    with pytest.raises(ValueError, match="missing in") as caught:
        assemble(Stack(6), samples)
    assert expected in str(caught.value)


def test_a_field_that_only_later_samples_have_is_found_too():
    samples = samples_of("x", [1, 2])
    samples[1]["extra"] = 1
    with pytest.raises(ValueError, match="field 'extra' is in 'k1' but missing in 'k0'"):
        assemble(Stack(2), samples)


def test_metadata_may_differ_and_fields_come_in_any_order():
    samples = [{"__key__": "a", "x": 1, "y": 2}, {"y": 4, "__offset__": 3, "x": 3}]
    batch = assemble(Stack(2), samples)
    assert batch["__key__"] == ["a", None]
    assert "__url__" not in batch
    assert (batch["x"].tolist(), batch["y"].tolist()) == ([1, 3], [2, 4])
