"""From what a person types to a pipeline, with every mistake told at once."""

from __future__ import annotations

import importlib
import os
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker import Pipeline
from stoker.errors import StokerError, UsageError
from stoker.plugins import Found, Host
from stoker.resolve import Changes, configured, find
from toys import Add, Numbers

Write = Callable[..., str]

PIPELINES = """
from __future__ import annotations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from stoker import Pipeline as _Pipeline
from toys import Add, Draw, KeepEven, Lists, Numbers
if TYPE_CHECKING:
    from stoker import Pipeline
    from nowhere import Unknown

def plain() -> Pipeline:
    return _Pipeline("plain", Numbers(8), Add(1), KeepEven(), Add(2), Lists(2))

def typed(n: int = 8, name: str = "typed", where: Path | None = None, odd: Unknown = None,
          size: Literal[2, 4] = 2, bare=3) -> Pipeline:
    pipeline = _Pipeline(name, Numbers(n), Lists(size))
    seen.append((n, name, where, odd, size, bare))
    return pipeline

def needs(n: int, *, m: int) -> Pipeline:
    return _Pipeline("needs", Numbers(n), Lists(m))

def free(**given: Any) -> Pipeline:
    seen.append(given)
    return _Pipeline("free", Numbers(8), Lists(2))

def starred(*args: Any) -> Pipeline:
    return _Pipeline("starred", Numbers(8), Lists(2))

def raises() -> Pipeline:
    raise ValueError("no luck")

def exits() -> Pipeline:
    raise SystemExit(0)

def refuses() -> Pipeline:
    return _Pipeline("p", Numbers)

def nothing() -> Pipeline:
    return None

seen: list[Any] = []
number = 17
made = plain()
builtin = min
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Return what writes a file of pipelines and says how to name it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)

    def written(source: str = PIPELINES, name: str = "declared.py") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))
        return str(path)

    yield written
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def told(name: str, **changes: Any) -> str:
    with pytest.raises(UsageError) as caught:
        configured(name, Changes(**changes))
    assert caught.value.exit_code == 2
    return str(caught.value)


def seen(place: str) -> Any:
    return sys.modules[Path(place).stem].seen[-1]


# -- finding ---------------------------------------------------------------------------


def test_a_pipeline_is_named_by_file_and_function(write: Write) -> None:
    assert configured(f"{write()}:plain", Changes()).name == "plain"


def test_a_pipeline_may_be_made_already(write: Write) -> None:
    assert configured(f"{write()}:made", Changes()).name == "plain"


def test_a_file_is_imported_by_its_stem_as_workers_will(write: Write) -> None:
    place = write()
    find(f"{place}:plain")
    assert sys.modules["declared"].__file__ == place
    assert str(Path(place).parent) in sys.path
    assert find(f"{place}:plain") is sys.modules["declared"].plain


def test_a_pipeline_is_named_by_module_and_function(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(write(name="somewhere/jobs_here/nightly.py")).parents[1]
    (folder / "jobs_here/__init__.py").touch()
    monkeypatch.chdir(folder)
    assert configured("jobs_here.nightly:plain", Changes()).name == "plain"


def test_a_pipeline_is_named_by_what_a_plugin_registered() -> None:
    assert find("digits").__name__ == "digits"


def test_a_file_that_was_just_written_is_found(write: Write) -> None:
    # The finder remembers a folder's content for as long as its time stamp stays the same.
    first = Path(write(name="fresh/first_here.py"))
    find(f"{first}:plain")
    before = first.parent.stat()
    second = write(name="fresh/second_here.py")
    os.utime(first.parent, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert callable(find(f"{second}:plain"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nofile.py:plain", "nofile.py: no such file (looked in "),
        ("nofile.py", "nofile.py: no such file (looked in "),
        ("nowhere_at_all:plain", "nowhere_at_all could not be imported: ModuleNotFoundError: No "),
        ("nowhere.at.all:plain", "nowhere.at.all could not be imported: ModuleNotFoundError: No "),
        ("os:nothing_here", "os has no function 'nothing_here'; "),
        (":plain", " could not be imported: ValueError: Empty module name"),
        (".relative:plain", ".relative could not be imported: TypeError: "),
        ("digitz", "no pipeline 'digitz'; did you mean 'digits'? (registered: "),
        ("", "no pipeline ''"),
    ],
)
def test_what_is_not_there_is_told(name: str, expected: str) -> None:
    assert told(name).startswith(expected)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "folder.py").mkdir()
    assert "no such file" in told(f"{tmp_path}/folder.py:x")


def test_a_function_that_is_not_there_is_told_with_the_nearest(write: Write) -> None:
    place = write()
    assert told(f"{place}:plan") == f"{place} has no function 'plan'; did you mean 'plain'?"
    assert told(f"{place}:zzz") == (
        f"{place} has no function 'zzz'; known: exits, free, made, needs, nothing, plain, raises, "
        "refuses, starred, typed"
    )


def test_a_file_without_a_function_is_told_with_the_choices(write: Write) -> None:
    place = write()
    message = told(place)
    assert message.startswith(f"{place}: say which function: {place}:plain, {place}:typed")
    assert f"{place}:made" in message
    assert "Path" not in message
    empty = write("", "empty_here.py")
    assert told(f"{empty}:") == f"{empty}: say which function: {empty}:NAME"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def x(:", "SyntaxError: invalid syntax (broken_here.py, line 1)"),
        ("\n\nx = (", "SyntaxError: '(' was never closed (broken_here.py, line 3)"),
        ("raise KeyError('no such key here')", "KeyError: no such key here"),
        ("import sys; sys.exit(0)", "SystemExit: 0"),
        ("import nowhere_at_all", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("x = '\0'", "source code string cannot contain null bytes"),
    ],
    ids=range(6),
)
def test_a_file_that_cannot_be_imported_is_told(write: Write, source: str, expected: str) -> None:
    place = write(source, "broken_here.py")
    message = told(f"{place}:x")
    assert message.startswith(f"{place} could not be imported: ")
    assert expected in message


def test_a_file_named_as_another_module_is_refused(write: Write) -> None:
    stdlib = write(name="json.py")
    assert told(f"{stdlib}:plain").startswith(f"{stdlib}: another module is named 'json' (/")
    assert "built in" in told(f"{write(name='sys.py')}:plain")
    one, two = write(name="a/twice.py"), write(name="b/twice.py")
    find(f"{one}:plain")
    assert (
        told(f"{two}:plain") == f"{two}: another module is named 'twice' ({one}); rename the file"
    )


def test_a_file_that_another_one_hides_is_refused(write: Write) -> None:
    hiding, hidden = write(name="front/hides.py"), write(name="back/hides.py")
    sys.path[:0] = [str(Path(hiding).parent), str(Path(hidden).parent)]
    assert told(f"{hidden}:plain") == (
        f"{hidden}: another module is named 'hides' ({hiding}); rename the file"
    )


def test_a_file_whose_name_cannot_be_imported_is_refused(write: Write) -> None:
    place = write(name="my-pipeline.py")
    assert told(f"{place}:plain") == (
        f"{place}: its name must be importable: letters, digits, underscores"
    )


# -- making ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("raises", "{} failed: ValueError: no luck"),
        ("exits", "{} failed: SystemExit: 0"),
        (
            "refuses",
            "pipeline 'p': <class 'toys.Numbers'> is no stage; make it with parentheses: "
            "Numbers(...)",
        ),
        ("nothing", "{} returned NoneType, not a Pipeline"),
        ("number", "{} is int, not a pipeline or a function of one"),
        (
            "builtin",
            "{} does not tell its arguments: ValueError: no signature found for builtin "
            "<built-in function min>",
        ),
        ("Numbers", "{} returned Numbers, not a Pipeline"),
    ],
)
def test_what_makes_no_pipeline_is_told(write: Write, function: str, expected: str) -> None:
    name = f"{write()}:{function}"
    assert told(name) == expected.format(name)


def test_an_error_of_ours_keeps_its_kind(write: Write) -> None:
    place = write("from stoker.errors import StaleError\ndef old(): raise StaleError('old')")
    with pytest.raises(StokerError, match="old") as caught:
        configured(f"{place}:old", Changes())
    assert caught.value.exit_code == 4


def test_arguments_are_what_their_annotations_say(write: Write) -> None:
    place = write()
    args = ["n=12", "name=17", "where=a/b", "odd=(1, 2)", "size=4", "bare=x=y"]
    pipeline = configured(f"{place}:typed", Changes(args=args))
    assert seen(place) == (12, "17", Path("a/b"), (1, 2), 4, "x=y")
    assert pipeline.name == "17"
    configured(f"{place}:typed", Changes(args=["bare=3", "where=none"]))
    assert seen(place) == (8, "typed", None, None, 2, 3)


def test_all_wrong_arguments_are_told(write: Write) -> None:
    name = f"{write()}:typed"
    message = told(name, args=["n=x", "m=3", "size=3", "name", "n=true"])
    assert message.splitlines() == [
        "5 problems:",
        "  - --arg n='x': allowed is int",
        f"  - {name} has no argument 'm'; known: bare, n, name, odd, size, where",
        "  - --arg size='3': allowed is 2 | 4",
        "  - --arg name: write it as name=value",
        "  - --arg n='true': allowed is int",
    ]


def test_all_missing_arguments_are_told(write: Write) -> None:
    name = f"{write()}:needs"
    assert told(name) == f"2 problems:\n  - {name} needs --arg n=...\n  - {name} needs --arg m=..."
    assert told(name, args=["n=x"]) == (
        f"2 problems:\n  - --arg n='x': allowed is int\n  - {name} needs --arg m=..."
    )
    assert configured(name, Changes(args=["n=8", "m=3"])).stages[0] == Numbers(8)


def test_a_function_may_take_any_argument(write: Write) -> None:
    place = write()
    configured(f"{place}:free", Changes(args=["a=1", "b=x"]))
    assert seen(place) == {"a": 1, "b": "x"}
    name = f"{place}:starred"
    assert told(name, args=["args=3"]) == f"{name} has no argument 'args'"


def test_a_made_pipeline_takes_no_arguments(write: Write) -> None:
    name = f"{write()}:made"
    assert told(name, args=["n=3"]) == f"{name} is a pipeline, not a function: it takes no --arg"


# -- changing --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "index", "parameter", "value"),
    [
        ("read.n=6", 0, "n", 6),
        ("toy.numbers.n=6", 0, "n", 6),
        ("toy.numbers.shuffle=true", 0, "shuffle", True),
        ("toy.numbers.fail_at=(1, 2)", 0, "fail_at", (1, 2)),
        ("toy.add#1.amount=-3", 1, "amount", -3),
        ("toy.add#2.amount=5", 3, "amount", 5),
        ("augment#3.amount=5", 3, "amount", 5),
        ("augment#2.num_workers=2", 2, "num_workers", 2),
        ("collate.batch_size=4", 4, "batch_size", 4),
        ("toy.keep_even.executor=inline", 2, "executor", "inline"),
    ],
)
def test_a_parameter_is_set_by_kind_name_or_occurrence(
    write: Write, setting: str, index: int, parameter: str, value: Any
) -> None:
    before = configured(f"{write()}:plain", Changes())
    after = configured(f"{write()}:plain", Changes(sets=[setting]))
    assert getattr(after.stages[index], parameter) == value
    assert after.stages[:index] == before.stages[:index]
    assert after.stages[index + 1 :] == before.stages[index + 1 :]


def test_the_last_setting_wins(write: Write) -> None:
    changes = Changes(sets=["read.n=6", "toy.numbers.n=4"])
    assert configured(f"{write()}:plain", changes).stages[0] == Numbers(4)


def test_options_are_set_without_a_stage_or_by_name(write: Write) -> None:
    sets = ["seed=5", "in_order=false", "max_time=1.5", "on_error={'budget': 5}", "device=cpu"]
    options = {"epochs": 3, "max_steps": None}
    made = configured(f"{write()}:plain", Changes(sets=sets, options=options)).options
    assert (made.seed, made.in_order, made.max_time, made.epochs) == (5, False, 1.5, 3)
    assert made.on_error.budget == 5  # type: ignore[union-attr]
    assert (made.max_steps, made.device) == (None, "cpu")


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (
            "augment.amount=3",
            "'augment' names 3 stages; say which: augment#1 (toy.add), augment#2 (",
        ),
        (
            "toy.add.amount=3",
            "'toy.add' names 2 stages; say which: toy.add#1 (toy.add), toy.add#2 (",
        ),
        ("decode.amount=3", "pipeline 'plain' has no stage 'decode'; known: augment, collate, "),
        ("colate.batch_size=3", "pipeline 'plain' has no stage 'colate'; did you mean 'collate'?"),
        (
            "collate.batch_sise=3",
            "toy.lists has no parameter 'batch_sise'; did you mean 'batch_size",
        ),
        ("collate.batch_size=x", "toy.lists: batch_size='x': allowed is int"),
        ("collate.batch_size=true", "toy.lists: batch_size=True: allowed is int"),
        ("collate.batch_size=", "toy.lists: batch_size='': allowed is int"),
        ("read.n=-1", "toy.numbers: n=-1: allowed is int of at least 0"),
        ("read.executor=fork", "toy.numbers: executor='fork': allowed is 'auto' | 'inline' | 'thr"),
        ("sead=3", "no pipeline option 'sead'; did you mean 'seed'? (a stage's parameter is writ"),
        ("seed=x", "the pipeline: seed='x': allowed is int of at least 0"),
        (
            "collate.batch_size",
            "--set collate.batch_size: write it as stage.parameter=value, as in",
        ),
        ("collate.=3", "--set collate.=3: write it as stage.parameter=value"),
        ("=3", "--set =3: write it as stage.parameter=value"),
        ("", "--set : write it as stage.parameter=value"),
        (".=", "--set .=: write it as stage.parameter=value"),
    ],
)
def test_a_wrong_setting_is_told(write: Write, setting: str, expected: str) -> None:
    assert told(f"{write()}:plain", sets=[setting]).startswith(expected)


def test_all_wrong_changes_are_told_at_once(write: Write) -> None:
    message = told(
        f"{write()}:plain",
        sets=["colate.batch_size=3", "read.n=x", "sead=3", "toy.add#2.amount=7"],
        swaps=["read=toy.nothing"],
    )
    count, swap, stage, option = message.splitlines()
    assert count == "3 problems:"  # what was to be set on the stage that is not there is not one
    assert swap.startswith("  - no stage 'toy.nothing'; ")
    assert stage.startswith("  - pipeline 'plain' has no stage 'colate'; did you mean 'collate'?")
    assert option.startswith("  - no pipeline option 'sead'; did you mean 'seed'?")


# -- swapping --------------------------------------------------------------------------

SWAPS = """
from dataclasses import dataclass
from typing import ClassVar
from stoker.parameters import param
from stoker.plugins import StageEntry, hookimpl
from stoker.stages import Map
from toys import Add

@dataclass(frozen=True)
class Scale(Map):
    name: ClassVar[str] = "swap.scale"
    kind: ClassVar[str] = "augment"
    amount: int = param(10, "factor")
    sleep_s: float = 0.5

    def apply(self, sample, rng):
        return {**sample, "x": sample["x"] * self.amount}

@dataclass(frozen=True)
class Needs(Map):
    kind: ClassVar[str] = "augment"
    by: int = param(help="how far", minimum=1)
    amount: int = 10

@dataclass(frozen=True)
class Shift(Needs):
    name: ClassVar[str] = "swap.shift"
    odd: int = param(1)

    def __post_init__(self):
        if self.odd % 2 == 0:
            raise ValueError("odd must be odd")

@hookimpl
def stoker_stages():
    for cls in (Scale, Shift):
        yield StageEntry(cls.name, f"{__name__}:{cls.__name__}", cls.kind)
"""


@pytest.fixture
def name(write: Write, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a pipeline, with other stages known to put into it."""
    place = Path(write(SWAPS, "swapping.py"))
    sys.path.insert(0, str(place.parent))
    importlib.invalidate_caches()
    known = Host([Found("swapping", "swapping", "swapping", "1")])
    assert known.plugins[0].error == ""
    for module in ("stoker.resolve", "stoker.pipeline"):
        monkeypatch.setattr(f"{module}.host", lambda: known)
    return f"{write()}:plain"


def stage_of(name: str, index: int, **changes: Any) -> Any:
    return configured(name, Changes(**changes)).stages[index]


def test_a_swap_carries_over_parameters_of_the_same_name(name: str) -> None:
    swapped = stage_of(name, 1, swaps=["toy.add#1=swap.scale"])
    assert (swapped.name, swapped.amount, swapped.sleep_s) == ("swap.scale", 1, 0.0)
    assert stage_of(name, 3, swaps=["toy.add#1=swap.scale"]) == Add(2)


def test_a_swapped_stage_can_be_set(name: str) -> None:
    swap = ["toy.add#1=swap.scale"]
    assert stage_of(name, 1, swaps=swap, sets=["swap.scale.amount=7"]).amount == 7
    assert stage_of(name, 1, swaps=swap, sets=["augment#1.amount=7"]).amount == 7


def test_what_a_swapped_stage_requires_can_be_set(name: str) -> None:
    swap = ["toy.add#2=swap.shift"]
    message = told(name, swaps=swap)
    assert message == "swap.shift needs by (int of at least 1)"
    swapped = stage_of(name, 3, swaps=swap, sets=["swap.shift.by=4"])
    assert (swapped.by, swapped.amount) == (4, 2)


@pytest.mark.parametrize(
    ("swap", "sets", "expected"),
    [
        ("toy.add#1=swap.skale", [], "no stage 'swap.skale'; did you mean 'swap.scale'?"),
        (
            "toy.ad#1=swap.scale",
            [],
            "pipeline 'plain' has no stage 'toy.ad#1'; did you mean 'toy.ad",
        ),
        ("augment=swap.scale", [], "'augment' names 3 stages; say which: augment#1 (toy.add)"),
        ("swap.scale", [], "--swap swap.scale: write it as stage=other, as in decode=decode.jpeg"),
        ("toy.add#1=", [], "no stage ''"),
        (
            "toy.add#1=swap.shift",
            ["swap.shift.by=0"],
            "swap.shift: by=0: allowed is int of at least",
        ),
        ("toy.add#1=swap.shift", ["swap.shift.bye=1"], "swap.shift needs by (int of at least 1)"),
    ],
)
def test_a_wrong_swap_is_told_alone(name: str, swap: str, sets: list[str], expected: str) -> None:
    message = told(name, swaps=[swap], sets=sets)
    assert message.startswith(expected)
    assert "problems" not in message


def test_what_a_stage_itself_refuses_is_told(name: str) -> None:
    sets = ["swap.shift.by=1", "swap.shift.odd=2"]
    message = told(name, swaps=["toy.add#1=swap.shift"], sets=sets)
    assert message == "swap.shift: ValueError: odd must be odd"


def test_what_is_changed_stays_as_it_was(write: Write) -> None:
    name = f"{write()}:made"
    before = find(name)
    configured(name, Changes(sets=["read.n=3", "seed=4"], options={"epochs": 2}))
    assert find(name) is before
    assert before == Pipeline("plain", *before.stages)
