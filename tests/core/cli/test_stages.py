"""`stoker stages`: all stages, or one with parameters, units, defaults and an example."""

from __future__ import annotations

import pytest

from stoker.plugins import host
from tests.core.cli.conftest import Plug, Stoker

BLUR = '''
    import math
    from dataclasses import dataclass
    from typing import ClassVar, Literal
    from stoker.parameters import param
    from stoker.plugins import StageEntry, hookimpl
    from stoker.stages import Map

    @dataclass(frozen=True)
    class Blur(Map):
        """Blurs [pictures], all
        of them.

        - a list
          of points
        """
        name: ClassVar[str] = "acme.blur"
        kind: ClassVar[str] = "augment"
        example: ClassVar[str] = 'stage("acme.blur", radius=2)'
        radius: int = param(help="how far", unit="px", minimum=1, maximum=9)
        mode: Literal["box", "gauss"] = param("box", "how [exactly]")
        most: float = math.inf

    @hookimpl
    def stoker_stages():
        yield StageEntry("acme.blur", __name__ + ":Blur", "augment", "blurs [pictures]")
        yield StageEntry("acme.gone", "nowhere_at_all:Gone", "augment")
        yield StageEntry("acme.other", __name__ + ":Blur", "decode")
'''


def test_stages_are_listed_with_kind_and_summary(stoker: Stoker, plug: Plug) -> None:
    plug("acme", BLUR)
    told = stoker("stages")
    assert (told.code, told.err) == (0, "")
    (line,) = (line for line in told.out.splitlines() if line.startswith("acme.blur "))
    assert line.split(maxsplit=2) == ["acme.blur", "augment", "blurs [pictures]"]
    for name in host().stages:
        assert f"\n{name} " in told.out


def test_stages_as_one_object(stoker: Stoker) -> None:
    told = stoker("stages", "--json")
    assert (told.code, told.err) == (0, "")
    listed = {stage["name"]: stage for stage in told.json["stages"]}
    assert set(listed) == set(host().stages)
    assert listed["read.files"]["kind"] == "read"
    assert all(stage["summary"] for stage in listed.values())


@pytest.mark.parametrize("width", ["60", "120"])
def test_one_stage_is_shown_with_all_there_is_to_know(
    stoker: Stoker, plug: Plug, monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    plug("acme", BLUR)
    told = stoker("stages", "acme.blur")
    assert (told.code, told.err) == (0, "")
    assert told.out.startswith("acme.blur  (kind augment, lives on cpu)\n\n")
    assert "Blurs [pictures], all of them.\n\n- a list\n  of points\n" in told.out
    for piece in ("radius", "required", "int from 1 to 9", "px", "how far", "'box' | 'gauss'"):
        assert piece in told.out
    assert "how [exactly]" in told.out
    assert told.out.endswith('\nexample: stage("acme.blur", radius=2)\n')
    assert told.out.index("radius") < told.out.index("num_workers")


def test_a_narrow_terminal_gets_a_paragraph_for_each_parameter(
    stoker: Stoker, plug: Plug, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    plug("acme", BLUR)
    lines = stoker("stages", "acme.blur").out
    assert "radius  (required)\n    int from 1 to 9 (px)\n    how far\n" in lines
    assert "mode = 'box'\n    'box' | 'gauss'\n    how [exactly]\n" in lines
    assert max(map(len, lines.splitlines())) <= 60


def test_one_stage_as_one_object(stoker: Stoker, plug: Plug) -> None:
    plug("acme", BLUR)
    told = stoker("stages", "acme.blur", "--json").json
    assert (told["name"], told["kind"], told["resource"]) == ("acme.blur", "augment", "cpu")
    assert told["example"] == 'stage("acme.blur", radius=2)'
    listed = {parameter["name"]: parameter for parameter in told["parameters"]}
    assert listed["radius"] == {
        "name": "radius",
        "type": "int",
        "default": None,
        "required": True,
        "unit": "px",
        "minimum": 1,
        "maximum": 9,
        "help": "how far",
    }
    assert (listed["mode"]["default"], listed["mode"]["required"]) == ("box", False)
    assert listed["most"]["default"] is None, "JSON has no infinity"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("acme.blurr", "no stage 'acme.blurr'; did you mean 'acme.blur'? (stoker stages lists "),
        ("acme.gone", "'acme.gone' could not be loaded from nowhere_at_all:Gone: ModuleNotFound"),
        ("acme.other", "stage 'acme.other' is announced as kind 'decode', but "),
        ("", "no stage ''; known: "),
    ],
)
def test_a_stage_that_cannot_be_shown_is_told(
    stoker: Stoker, plug: Plug, name: str, expected: str
) -> None:
    plug("acme", BLUR)
    told = stoker("stages", name)
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith(f"stoker: {expected}")
    assert "Traceback" not in told.err
    as_json = stoker("stages", name, "--json").json
    assert as_json["exit_code"] == 2
    assert as_json["error"].startswith(expected)


def test_every_built_in_stage_can_be_shown(stoker: Stoker) -> None:
    for name in host().stages:
        told = stoker("stages", name, "--json")
        assert told.code == 0, told.err
        assert told.json["description"]
        assert told.json["example"]
        assert stoker("stages", name).code == 0
