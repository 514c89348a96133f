"""`stoker data`: makers of data sets, by plugins, as commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.cli.data import argument_help
from tests.core.cli.conftest import Plug, Stoker

MAKER = '''
    from __future__ import annotations
    from pathlib import Path
    from typing import TYPE_CHECKING
    from stoker.errors import UsageError
    from stoker.plugins import DataEntry, hookimpl
    if TYPE_CHECKING:
        from nowhere import Unknown

    def make(out: Path, *, samples: int = 3, force: bool = False, odd: Unknown = "x"):
        """Write made-up scans.

        Longer words about it.

        Args:
            out: the folder to fill;
                it may be missing.
            samples: how many: at least one.

        Returns:
            out: what was written.
        """
        print("making")
        if samples == 0:
            raise UsageError("samples=0: allowed is at least 1")
        if samples == 13:
            return None
        out.mkdir()
        return {"out": str(out), "samples": samples, "share": float("nan"), "odd": odd}

    def broken(out: Path): raise RuntimeError("no luck")

    @hookimpl
    def stoker_data():
        yield DataEntry("scans", __name__ + ":make", "made-up scans")
        yield DataEntry("broken", __name__ + ":broken")
        yield DataEntry("gone", "nowhere_at_all:make", "not there")
'''


@pytest.fixture(autouse=True)
def _scans(plug: Plug) -> None:
    plug("acme", MAKER)


def test_data_sets_are_listed_without_importing_them(stoker: Stoker) -> None:
    told = stoker("data", "--help")
    assert told.code == 0
    for line in ("  scans   made-up scans\n", "  gone    not there\n", "  digits  "):
        assert line in told.out


def test_a_data_set_has_the_options_of_its_function(stoker: Stoker) -> None:
    told = stoker("data", "scans", "--help")
    assert told.code == 0
    for piece in (
        "Write made-up scans.",
        "the folder to fill; it may be missing.",
        "--samples <int>",
        "how many: at least one.",
        "--force",
        "--json",
    ):
        assert piece in told.out
    assert "Longer words" not in told.out


def test_a_data_set_is_made_and_told(stoker: Stoker, tmp_path: Path) -> None:
    told = stoker("data", "scans", "made", "--samples", "5")
    assert (told.code, told.err) == (0, "")
    assert told.out.startswith("making\nmade: samples 5, share nan, odd x (")
    assert (tmp_path / "made").is_dir()


def test_a_data_set_as_one_object(stoker: Stoker) -> None:
    told = stoker("data", "scans", "made", "--json")
    assert told.json == {"out": "made", "samples": 3, "share": None, "odd": "x"}
    assert told.err == "making\n"
    assert stoker("data", "scans", "other", "--samples", "13", "--json").json == {"made": None}


def test_a_maker_that_tells_nothing_is_done(stoker: Stoker) -> None:
    told = stoker("data", "scans", "made", "--samples", "13")
    assert told.code == 0
    assert told.out.startswith("making\nscans: done (")


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (["skans", "x"], 2, "no data set 'skans'; did you mean 'scans'?"),
        (["scans", "x", "--samples", "0"], 2, "samples=0: allowed is at least 1"),
        (["scans", "no/where"], 2, "stoker data scans: No such file or directory: no/where"),
        (["scans", "x", "--samples", "y"], 2, "Invalid value for '--samples'"),
        (["scans"], 2, "Missing argument 'out'"),
        (["scans", "x", "--sample", "3"], 2, "No such option: --sample"),
        (["gone", "x"], 2, "'gone' could not be loaded from nowhere_at_all:make: ModuleNotFound"),
        (["broken", "x"], 1, "RuntimeError: no luck"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_what_goes_wrong_is_told(
    stoker: Stoker, words: list[str], code: int, expected: str
) -> None:
    told = stoker("data", *words)
    assert told.code == code
    assert expected.lower() in told.err.lower()
    assert "Traceback" not in told.err
    as_json = stoker("data", *words, "--json")
    assert as_json.code == as_json.json["exit_code"] == code
    assert expected.lower() in as_json.json["error"].lower()


def test_help_is_taken_from_a_docstring() -> None:
    def documented() -> None:
        """Do it.

        Args:
            one: first, and
                more of it.
            two: second: with a colon.

        Returns:
            three: not an argument.
        """

    assert argument_help(documented) == {
        "one": "first, and more of it.",
        "two": "second: with a colon.",
    }
    assert argument_help(lambda: None) == {}
