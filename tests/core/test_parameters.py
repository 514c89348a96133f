"""Parameters: judged all together, parsed from text, described."""

from __future__ import annotations

import math
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker import parameters
from stoker.errors import UsageError
from stoker.parameters import convert, faults, literal, param, parse
from stoker.rng import Rng
from stoker.sample import Sample
from stoker.stages import Map, Source

if TYPE_CHECKING:
    from nowhere import Unknown  # type: ignore[import-not-found]


@dataclass(frozen=True)
class Budget:
    """A value with parts."""

    most: int = 3


@dataclass(frozen=True)
class Blur(Map):
    """Blurs a picture."""

    name: ClassVar[str] = "acme.blur"
    kind: ClassVar[str] = "augment"

    radius: int = param(2, "how far", unit="px", minimum=1, maximum=9)
    sigma: float = param(0.5, minimum=0.0)
    share: float = param(1.0, maximum=1.0)
    mode: Literal["box", "gauss"] = "box"
    label: str = ""
    both: bool = False
    shape: int | tuple[int, int] = param(8, "side", minimum=1)
    scale: tuple[float, ...] = ()
    names: list[str] = param(("a",))
    root: str | Path = "."
    where: Path = Path(".")
    budget: Budget | None = None
    function: Callable[[int], int] | None = None
    odd: Unknown = None
    thing: Any = None

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        return sample


@pytest.mark.parametrize(
    "given",
    [
        {"radius": 1},
        {"radius": 9},
        {"radius": np.int64(3)},
        {"sigma": 0.0},
        {"sigma": 1},
        {"sigma": np.float32(0.5)},
        {"sigma": math.inf},
        {"share": -5.0},
        {"shape": (1, 2)},
        {"shape": [1, 2]},
        {"scale": [0.5, 1]},
        {"scale": (0.5,)},
        {"names": ("a", "b")},
        {"names": ["a", "b"]},
        {"root": Path("x")},
        {"root": "x"},
        {"budget": Budget(1)},
        {"function": len},
        {"function": lambda x: x},
        {"odd": object()},
        {"thing": [math.nan]},
        {"num_workers": 4},
    ],
    ids=repr,
)
def test_right_values_are_accepted(given: dict[str, Any]) -> None:
    assert list(faults(Blur(**given))) == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"radius": 0}, "radius=0: allowed is int from 1 to 9 (px)"),
        ({"radius": 10}, "radius=10: allowed is int from 1 to 9 (px)"),
        ({"radius": 2.0}, "radius=2.0: allowed is int from 1 to 9 (px)"),
        ({"radius": "2"}, "radius='2': allowed is int from 1 to 9 (px)"),
        ({"radius": True}, "radius=True: allowed is int from 1 to 9 (px)"),
        ({"radius": None}, "radius=None: allowed is int from 1 to 9 (px)"),
        ({"sigma": -1e-9}, "sigma=-1e-09: allowed is float of at least 0"),
        ({"sigma": math.nan}, "sigma=nan: allowed is float of at least 0"),
        ({"share": 1.5}, "share=1.5: allowed is float of at most 1"),
        ({"share": math.nan}, "share=nan: allowed is float of at most 1"),
        ({"mode": "cube"}, "mode='cube': allowed is 'box' | 'gauss'"),
        ({"mode": ["box"]}, "mode=['box']: allowed is 'box' | 'gauss'"),
        ({"label": 17}, "label=17: allowed is str"),
        ({"label": b"x"}, "label=b'x': allowed is str"),
        ({"both": 1}, "both=1: allowed is bool"),
        ({"both": "true"}, "both='true': allowed is bool"),
        (
            {"shape": (0, 3)},
            "shape=(0, 3): allowed is int | tuple[int, int], numbers of at least 1",
        ),
        ({"shape": (1, 2, 3)}, "shape=(1, 2, 3): allowed is int | tuple[int, int], numbers of"),
        ({"shape": ("1", "2")}, "shape=('1', '2'): allowed is int | tuple[int, int], numbers of"),
        ({"scale": (True, 0.5)}, "scale=(True, 0.5): allowed is tuple[float, ...]"),
        ({"scale": {0.5}}, "scale={0.5}: allowed is tuple[float, ...]"),
        ({"names": "abc"}, "names='abc': allowed is list[str]"),
        ({"where": "x"}, "where='x': allowed is Path"),
        ({"budget": {"most": 1}}, "budget={'most': 1}: allowed is Budget | None"),
        ({"function": 3}, "function=3: allowed is Callable[[int], int] | None"),
        ({"num_workers": 0}, "num_workers=0: allowed is int | 'auto', numbers of at least 1"),
        ({"num_workers": "many"}, "num_workers='many': allowed is int | 'auto', numbers of"),
        ({"num_workers": True}, "num_workers=True: allowed is int | 'auto', numbers of at least"),
    ],
    ids=repr,
)
def test_a_wrong_value_is_told_with_what_is_allowed(given: dict[str, Any], told: str) -> None:
    (fault,) = faults(Blur(**given))
    assert fault.startswith(told)


def test_all_faults_are_told() -> None:
    wrong = Blur(radius=0, sigma=-1.0, mode="cube", both=2, num_workers=-1)  # type: ignore[arg-type]
    told = [fault.partition("=")[0] for fault in faults(wrong)]
    assert told == ["radius", "sigma", "mode", "both", "num_workers"]


@given(st.integers())
@settings(max_examples=50, deadline=None)
def test_bounds_are_inclusive(radius: int) -> None:
    assert (list(faults(Blur(radius))) == []) == (1 <= radius <= 9)


@given(st.floats(allow_nan=True))
@settings(max_examples=50, deadline=None)
def test_floats_keep_to_their_bounds(value: float) -> None:
    assert (list(faults(Blur(share=value))) == []) == (value <= 1.0)


class Forgot(Blur):
    """Declares fields, and is no dataclass."""

    amount: int = 3
    other: ClassVar[int] = 3


class NothingNew(Blur):
    """Declares nothing, so it need not be one."""

    other: ClassVar[int] = 3


class Plain:
    """A base that has nothing to do with stages."""

    note: str = "x"


@dataclass(frozen=True)
class WithPlainBase(Plain, Blur):
    """Has a base that is no dataclass and no stage."""


def test_a_class_that_forgot_to_be_a_dataclass_is_told_so() -> None:
    (fault,) = faults(Forgot())
    assert fault == (
        "Forgot declares amount but is no dataclass: decorate it with @dataclass(frozen=True)"
    )
    assert list(faults(NothingNew())) == []
    assert list(faults(WithPlainBase())) == []


def test_a_class_that_forgot_is_told_so_without_annotations_as_text() -> None:
    module = types.ModuleType("plainly_annotated")
    exec(
        "from typing import ClassVar\nfrom tests.core.test_parameters import Blur\n"
        "class Bare(Blur):\n    amount: int = 3\n    other: ClassVar[int] = 1\n",
        vars(module),
    )
    (fault,) = faults(module.Bare())
    assert fault.startswith("Bare declares amount but is no dataclass")


def test_a_class_of_no_imported_module_is_judged() -> None:
    # As in a console that forgot its module: only what can be resolved is judged.
    module = types.ModuleType("gone")
    exec(
        "from dataclasses import dataclass\nfrom tests.core.test_parameters import Blur\n"
        "@dataclass(frozen=True)\nclass Bare(Blur):\n"
        "    __module__ = 'gone'\n    amount: 'int' = 3\n",
        vars(module),
    )
    assert "gone" not in sys.modules
    assert [fault.partition(":")[0] for fault in faults(module.Bare(radius=0))] == ["radius=0"]


@dataclass(frozen=True)
class Strange(Map):
    """Annotations that nobody can resolve, or that break their reader."""

    name: ClassVar[str] = "acme.strange"
    first: list[Unknown] = param(())
    second: int | "text" = 3  # type: ignore[name-defined]  # noqa: UP037, F821
    third: math.nothing = 3  # type: ignore[name-defined]
    amount: int = param(3, minimum=1)


def test_annotations_that_cannot_be_resolved_break_nothing() -> None:
    assert list(faults(Strange())) == []
    assert [fault.partition(":")[0] for fault in faults(Strange(amount=0))] == ["amount=0"]
    assert parameters.parameters(Strange)["third"].type == "math.nothing"
    assert parse(Strange, "s", "third", "4") == 4


# -- from text -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("17", 17),
        ("1_000", 1000),
        ("0.5", 0.5),
        ("(1, 2)", (1, 2)),
        ("true", True),
        ("False", False),
        ("none", None),
        ("null", None),
        ("'17'", "17"),
        ("auto", "auto"),
        ("a b", "a b"),
        ("", ""),
        ("{[]: 1}", "{[]: 1}"),
        ("(" * 300, "(" * 300),
        ("-" * 20_000 + "1", "-" * 20_000 + "1"),
        ("\0", "\0"),
        ("__import__('os')", "__import__('os')"),
        (r"'\d'", r"\d"),
    ],
    ids=range(18),
)
def test_text_is_a_literal_or_itself(text: str, value: Any) -> None:
    assert literal(text) == value
    assert type(literal(text)) is type(value)


@given(st.text("019ab_.e+-*()[]{}:,'\"\\# \n"))
@settings(max_examples=200, deadline=None)
def test_no_text_breaks_the_reading_of_literals(text: str) -> None:
    literal(text)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("radius", "7", 7),
        ("label", "17", "17"),
        ("label", "true", "true"),
        ("label", "none", "none"),
        ("label", "(1, 2)", "(1, 2)"),
        ("label", "", ""),
        ("both", "true", True),
        ("both", "1", True),
        ("both", "no", False),
        ("sigma", "3", 3.0),
        ("sigma", "1e-3", 1e-3),
        ("shape", "(1, 2)", (1, 2)),
        ("shape", "[1, 2]", (1, 2)),
        ("shape", "5", 5),
        ("scale", "(0.5, 1)", (0.5, 1.0)),
        ("names", "['a', 'b']", ["a", "b"]),
        ("root", "17", "17"),
        ("root", "a/b", "a/b"),
        ("where", "a/b", Path("a/b")),
        ("mode", "gauss", "gauss"),
        ("num_workers", "auto", "auto"),
        ("num_workers", "4", 4),
        ("budget", "{'most': 5}", Budget(5)),
        ("budget", "none", None),
    ],
)
def test_text_is_parsed_as_the_parameter_wants_it(name: str, text: str, value: Any) -> None:
    parsed = parse(Blur, "acme.blur", name, text)
    assert parsed == value
    assert type(parsed) is type(value)
    assert list(faults(Blur(**{name: parsed}))) == []


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("radius", "x", "acme.blur: radius='x': allowed is int from 1 to 9 (px)"),
        ("radius", "0", "acme.blur: radius=0: allowed is int from 1 to 9 (px)"),
        ("radius", "true", "acme.blur: radius=True: allowed is int from 1 to 9 (px)"),
        ("radius", "", "acme.blur: radius='': allowed is int from 1 to 9 (px)"),
        ("sigma", "true", "acme.blur: sigma=True: allowed is float of at least 0"),
        ("sigma", "nan", "acme.blur: sigma='nan': allowed is float of at least 0"),
        ("shape", "(True, 2)", "acme.blur: shape=(True, 2): allowed is int | tuple[int, int]"),
        ("shape", "(0, 2)", "acme.blur: shape=(0, 2): allowed is int | tuple[int, int]"),
        ("mode", "cube", "acme.blur: mode='cube': allowed is 'box' | 'gauss'"),
        ("radios", "3", "acme.blur has no parameter 'radios'; did you mean 'radius'?"),
        ("name", "x", "acme.blur has no parameter 'name'"),
    ],
)
def test_wrong_text_is_told(name: str, text: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(Blur, "acme.blur", name, text)
    assert str(caught.value).startswith(told)


@given(st.integers(1, 9), st.floats(0, 1e6), st.booleans(), st.sampled_from(["box", "gauss"]))
@settings(max_examples=30, deadline=None)
def test_what_was_written_is_what_is_read(radius: int, sigma: float, both: bool, mode: str) -> None:
    stage = Blur(radius, sigma, both=both, mode=mode)  # type: ignore[arg-type]
    for name in ("radius", "sigma", "both", "mode"):
        assert parse(Blur, "b", name, repr(getattr(stage, name))) == getattr(stage, name)


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (int, "3", 3),
        (str, "3", "3"),
        (str | None, "none", None),
        (Path, "3", Path("3")),
        (bool, "yes", True),
        (tuple[int, int], "(1, 2)", (1, 2)),
        (Mapping[str, int], "{'a': 1}", {"a": 1}),
        (Budget, "{'most': 2}", Budget(2)),
        (Any, "3", 3),
        ("Unknown", "3", 3),
        ("Unknown", "x", "x"),
    ],
    ids=repr,
)
def test_an_argument_is_what_its_annotation_says(annotation: Any, text: str, value: Any) -> None:
    converted = convert(annotation, text, "--arg x")
    assert converted == value
    assert type(converted) is type(value)


def test_an_argument_of_the_wrong_type_is_told() -> None:
    for text in ("x", "true", "1.5", ""):
        with pytest.raises(UsageError, match=r"--arg n='.*': allowed is int"):
            convert(int, text, "--arg n")
    with pytest.raises(UsageError, match=r"allowed is 'a' \| 'b'"):
        convert(Literal["a", "b"], "c", "--arg n")


# -- listing and making ----------------------------------------------------------------


def test_parameters_are_listed_as_the_call_takes_them() -> None:
    listed = parameters.parameters(Blur)
    assert list(listed)[:2] == ["radius", "sigma"]
    assert list(listed)[-2:] == ["num_workers", "executor"]
    radius = listed["radius"]
    assert (radius.type, radius.default, radius.required) == ("int", 2, False)
    assert (radius.unit, radius.help, radius.minimum, radius.maximum) == ("px", "how far", 1, 9)
    assert "name" not in listed


@dataclass(frozen=True)
class Needs(Source):
    """Two required parameters, and one that is made anew for each."""

    name: ClassVar[str] = "acme.needs"
    root: str = param(help="a folder")
    size: int = param(minimum=1, unit="px")
    ignored: list[str] = field(default_factory=list)
    table: Any = None
    derived: int = field(init=False, default=3)

    def __post_init__(self) -> None:
        if self.size == 13:
            raise ValueError("13 is unlucky")


def test_making_a_stage_tells_all_that_is_missing_or_unknown() -> None:
    with pytest.raises(UsageError) as caught:
        parameters.build(Needs, "acme.needs", {"rot": 1, "derived": 2})
    assert str(caught.value) == (
        "acme.needs has no parameter 'rot'; did you mean 'root'?; "
        "acme.needs has no parameter 'derived'; known: executor, ignored, num_workers, root, size, "
        "table; acme.needs needs root (str); acme.needs needs size (int of at least 1 (px))"
    )
    made = parameters.build(Needs, "acme.needs", {"root": "x", "size": 3})
    assert made == Needs("x", 3)


def test_what_a_stage_says_when_it_is_made_is_wrong_use() -> None:
    with pytest.raises(UsageError, match="acme.needs: ValueError: 13 is unlucky"):
        parameters.build(Needs, "acme.needs", {"root": "x", "size": 13})


def test_a_stage_is_shown_as_its_call() -> None:
    assert parameters.shown(Blur()) == "acme.blur()"
    assert parameters.shown(Blur(3, mode="gauss")) == "acme.blur(radius=3, mode='gauss')"
    assert parameters.shown(Needs("x", 1)) == "acme.needs(root='x', size=1)"
    with_array = Needs("x", 1, table=np.zeros(3))
    assert parameters.shown(with_array).endswith("table=array([0., 0., 0.]))")
