import dataclasses
import io
import pickle

import numpy
import pytest

import stoker
from stoker.errors import UsageError
from stoker.parameters import build, faults, parameters, shown
from stoker.plugins import host
from stoker.testing import apply, check_stage
from stoker_plugins.decode import Fields
from tests.plugins.decode.helpers import problems


def npy(array: object, **options: object) -> bytes:
    buffer = io.BytesIO()
    numpy.save(buffer, array, **options)  # type: ignore[arg-type]
    return buffer.getvalue()


def test_contract() -> None:
    check_stage(Fields(label="cls", meta="json"))
    assert host().stage_class("decode.fields") is Fields


def test_keywords_mapping_and_pairs_make_the_same_stage() -> None:
    made = Fields(label="cls", meta="json")
    assert made.fields == (("label", "cls"), ("meta", "json"))
    assert made == Fields({"label": "cls"}, meta="json")
    assert made == Fields((("label", "cls"), ("meta", "json")))
    assert made == Fields(fields=[["label", "cls"], ["meta", "json"]])  # type: ignore[list-item]
    assert made == stoker.stage("decode.fields", fields={"label": "cls", "meta": "json"})
    assert made != Fields(label="cls")
    assert len({made, Fields(label="cls", meta="json")}) == 1


def test_it_prints_travels_and_can_be_changed() -> None:
    made = Fields(label="cls", num_workers=3, executor="thread")
    assert repr(made) == "Fields(label='cls', num_workers=3, executor='thread')"
    assert shown(Fields(label="cls")) == "decode.fields(fields=(('label', 'cls'),))"
    assert pickle.loads(pickle.dumps(made)) == made
    assert dataclasses.replace(made, num_workers=2) == Fields(
        label="cls", num_workers=2, executor="thread"
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.fields = ()  # type: ignore[misc]


def test_parameters_are_listed_and_build_it() -> None:
    listed = parameters(Fields)
    assert list(listed) == ["fields", "num_workers", "executor"]
    assert listed["fields"].type == "tuple[tuple[str, str], ...]"
    made = build(Fields, "decode.fields", {"fields": (("a", "cls"),), "num_workers": 2})
    assert made == Fields(a="cls", num_workers=2)


def test_decoders_by_extension() -> None:
    array = numpy.arange(6, dtype=numpy.int16).reshape(2, 3)
    sample = {
        "__key__": "a",
        "cls": b"17\n",
        "cls2": b"-1",
        "index": b"5",
        "json": b'{"a": [1, null]}',
        "box.npy": npy(array),
        "txt": "grüß".encode(),
        "text": b"",
        "id": b"0007",
        "jpg": b"left alone",
    }
    stage = Fields(a="cls", b="cls2", c="index", d="json", e="box.npy", f="txt", g="text", h="id")
    assert problems(stage) == []
    found = apply(stage, sample)
    assert numpy.array_equal(found.pop("e"), array)
    assert found == {
        "__key__": "a",
        "jpg": b"left alone",
        "a": 17,
        "b": -1,
        "c": 5,
        "d": {"a": [1, None]},
        "f": "grüß",
        "g": "",
        "h": "0007",
    }


def test_typed_values_pass_unchanged() -> None:
    assert apply(Fields(label="cls", meta="json"), {"cls": 3, "json": None}) == {
        "label": 3,
        "meta": None,
    }


def test_a_field_may_keep_its_name_feed_two_and_swap() -> None:
    assert apply(Fields(cls="cls"), {"cls": b"3"}) == {"cls": 3}
    assert apply(Fields(a="cls", b="cls"), {"cls": b"3"}) == {"a": 3, "b": 3}
    assert apply(Fields(txt="id", id="txt"), {"txt": b"t", "id": b"i"}) == {"txt": "i", "id": "t"}


def test_other_buffers() -> None:
    assert apply(Fields(n="cls"), {"cls": bytearray(b"3")}) == {"n": 3}
    assert apply(Fields(t="txt"), {"txt": memoryview(b"x")}) == {"t": "x"}


def test_B01_S1_a_missing_field_lists_those_seen() -> None:
    sample = {"__key__": "x", "jpg": b"x"}
    with pytest.raises(KeyError, match="no field 'cls'; the sample has: jpg"):
        apply(Fields(label="cls"), sample)
    assert sample == {"__key__": "x", "jpg": b"x"}


@pytest.mark.parametrize(
    ("field", "data"),
    [
        ("cls", b""),
        ("cls", b"cat"),
        ("json", b"{"),
        ("json", b"\xff\xfe\xfd"),
        ("npy", b""),
        ("npy", b"PK\x03\x04"),
        ("npy", npy(numpy.arange(9))[:-3]),
        ("txt", b"\xff"),
    ],
)
def test_data_that_does_not_decode_names_field_and_data(field: str, data: bytes) -> None:
    with pytest.raises(ValueError, match=rf"field '{field}' begins with b"):
        apply(Fields(out=field), {field: data})


def test_S2_pickled_content_is_never_loaded() -> None:
    objects = npy(numpy.array([object()], dtype=object), allow_pickle=True)
    for data in (objects, pickle.dumps([1])):
        with pytest.raises(ValueError, match="field 'npy'"):
            apply(Fields(out="npy"), {"npy": data})
    for field in ("pkl", "pyd", "meta.pickle", "pth"):
        (said,) = problems(Fields(out=field))
        assert "run code when they are loaded and are refused" in said


@pytest.mark.parametrize(
    ("stage", "says"),
    [
        (Fields(), "no field is named"),
        (Fields(meta="xyz"), "meta='xyz': no decoder for .xyz; allowed: cls, cls2, index, json"),
        (Fields(image="jpg"), "pictures are for decode.Image"),
        (Fields(label="CLS"), "fields are lower case, so write 'cls'"),
        (Fields((("a", "cls"), ("a", "txt"))), "output 'a' is named twice"),
        (Fields(__key__="txt"), "outputs must have a name that is no metadata"),
    ],
)
def test_what_cannot_be_decoded_is_refused_before_anything_starts(stage: Fields, says: str) -> None:
    (said,) = problems(stage)
    assert says in said


def test_all_problems_show_at_once() -> None:
    assert len(problems(Fields(a="xyz", b="pkl", c="cls"))) == 2


@pytest.mark.parametrize("given", [3, ("label", "cls"), [("a", "b", "c")], None])
def test_what_are_no_pairs_is_wrong_use(given: object) -> None:
    with pytest.raises(UsageError, match="allowed are pairs of output and encoded field"):
        Fields(given)  # type: ignore[arg-type]


def test_wrong_types_are_faults() -> None:
    stage = Fields(label=3)  # type: ignore[arg-type]
    assert "fields=(('label', 3),)" in next(faults(stage))
    assert problems(stage) == []
