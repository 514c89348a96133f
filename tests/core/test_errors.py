"""Errors: one tree, exit codes, messages that help, and a safe journey between processes."""

from __future__ import annotations

import inspect
import pickle
import re
from typing import Any

import pytest

from stoker import errors
from stoker.errors import (
    PlanError,
    SampleError,
    StokerError,
    UnknownNameError,
    UsageError,
    describe_given,
    nearest,
    reason_of,
    unknown_name,
)


class Unspeakable(Exception):
    """Cannot say what is wrong with it."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def all_errors() -> list[type[StokerError]]:
    found = [thing for _, thing in inspect.getmembers(errors, inspect.isclass)]
    return [thing for thing in found if issubclass(thing, StokerError)]


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = re.findall(r"(\w+Error) +(\d)  ", errors.__doc__ or "")
    known = {cls.__name__: str(cls.exit_code) for cls in all_errors() if cls is not StokerError}
    assert dict(drawn) == known


@pytest.mark.parametrize(
    "error",
    [
        UsageError("wrong"),
        UnknownNameError("stage", "decod", ["decode"]),
        PlanError("photos", ["one", "two"]),
        SampleError("decode.image", ValueError("bad"), key="a", shard="s.tar", offset=3),
        errors.QuarantineError("too many"),
        errors.StaleError("old"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_B19_our_errors_survive_the_way_out_of_another_process(error: StokerError) -> None:
    there = pickle.loads(pickle.dumps(error))
    assert type(there) is type(error)
    assert str(there) == str(error)
    assert there.exit_code == error.exit_code
    assert vars(there) == vars(error)


def test_every_error_of_the_tree_can_be_pickled() -> None:
    for cls in all_errors():
        error = cls.__new__(cls, "message")
        assert str(pickle.loads(pickle.dumps(error))) == "message"


def test_a_plan_error_counts_and_lists_its_problems() -> None:
    one, two = PlanError("p", ["a is wrong"]), PlanError("p", ["a is wrong", "so is b"])
    assert str(one) == "pipeline 'p' has 1 problem:\n  - a is wrong"
    assert str(two) == "pipeline 'p' has 2 problems:\n  - a is wrong\n  - so is b"
    assert two.problems == ("a is wrong", "so is b")


def test_a_sample_error_names_stage_key_shard_and_offset() -> None:
    cause = ValueError("not a picture")
    error = SampleError("decode.image", cause, key="0001", shard="a.tar", offset=512)
    assert str(error) == (
        "decode.image failed on sample '0001' in a.tar at offset 512: ValueError: not a picture"
    )
    assert error.__cause__ is cause
    assert "at offset 0:" in str(SampleError("x", "broken", offset=0))
    assert str(SampleError("x", "broken")) == "x failed on a sample: broken"


class NeedsTwo(Exception):
    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


class KeywordOnly(Exception):
    def __init__(self, *, name: str) -> None:
        super().__init__(f"named {name}")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("bad"), "ValueError: bad"),
        (ValueError(), "ValueError"),
        (ValueError("  "), "ValueError"),
        (KeyError("no field 'x'; the sample has: y"), "KeyError: no field 'x'; the sample has: y"),
        (KeyError("x"), "KeyError: 'x'"),
        (KeyError(("a", "b c")), "KeyError: ('a', 'b c')"),
        (NeedsTwo("a", "b"), "NeedsTwo: a and b"),
        (KeywordOnly(name="n"), "KeywordOnly: named n"),
        (Unspeakable(), "Unspeakable: (its message cannot be shown: RuntimeError)"),
        (SystemExit(3), "SystemExit: 3"),
    ],
    ids=range(10),
)
def test_B19_a_reason_keeps_type_and_message_of_any_error(error: BaseException, text: str) -> None:
    assert reason_of(error) == text


@pytest.mark.parametrize(
    ("given", "known", "right"),
    [
        ("decode.jpg", ["decode.jpeg", "augment.flip"], "decode.jpeg"),
        ("files", ["read.files", "decode.fields"], "read.files"),
        ("BF16", ["precision.fp32", "precision.bf16"], "precision.bf16"),
        ("Decode.Image", ["decode.image"], "decode.image"),
        ("decode.immage", ["Decode.Image"], "Decode.Image"),
        ("zzz", ["decode.image"], None),
        ("", ["decode.image"], None),
        ("x", [], None),
    ],
)
def test_the_nearest_name_is_near(given: str, known: list[str], right: str | None) -> None:
    assert nearest(given, known) == right


def test_an_unknown_name_is_told_with_the_nearest_or_with_all() -> None:
    assert unknown_name("stage", "fli", ["flip", "crop"]) == "no stage 'fli'; did you mean 'flip'?"
    assert unknown_name("stage", "zzz", ["flip", "crop"]) == "no stage 'zzz'; known: crop, flip"
    assert unknown_name("stage", "zzz", []) == "no stage 'zzz'"
    assert unknown_name("stage", "zzz", ["", "crop"]) == "no stage 'zzz'; known: crop"
    many = unknown_name("stage", "zzz", [f"name{i:02}" for i in range(13)], "a hint")
    assert many.endswith("name11 … (a hint)")
    assert "name12" not in many


def test_a_value_is_shown_as_its_repr_in_one_short_line() -> None:
    for value in (3, 0.5, "text", (1, 2), [1], {"b": 1, "a": [None]}, {4}, None, b"x", ()):
        assert describe_given(value) == repr(value)
    assert describe_given("x" * 100) == "'" + "x" * 56 + "..."

    class Lines:
        def __repr__(self) -> str:
            return "a\n    b"

    assert describe_given(Lines()) == "a b"


def test_showing_a_value_does_not_walk_through_a_data_set() -> None:
    class Sample:
        shown = 0

        def __repr__(self) -> str:
            Sample.shown += 1
            return "Sample()"

    text = describe_given([Sample()] * 10_000)
    assert text.startswith("[Sample(), ")
    assert len(text) == 60
    assert Sample.shown < 50


def test_showing_a_value_survives_a_broken_repr() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise ValueError("no")

    text: Any = describe_given([Broken()])
    assert "Broken" in text
