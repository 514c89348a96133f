"""The command line as a whole: help, exit codes, JSON, traces, and what it imports."""

from __future__ import annotations

import sys

import pytest

from processes import python
from stoker import __version__
from tests.core.cli.conftest import Plug, Stoker, Write

CALL = "import sys; from stoker.cli import main; code = main(sys.argv[1:]); "


@pytest.mark.parametrize(
    "words",
    [["--help"], ["--version"], ["run", "--help"], ["stages"], ["stages", "--json"], ["plugins"]],
    ids=" ".join,
)
def test_listing_imports_nothing_heavy(words: list[str]) -> None:
    heavy = "{'torch', 'numpy', 'PIL', 'webdataset', 'sklearn'}"
    code = CALL + f"print(sorted({heavy} & set(sys.modules)), file=sys.stderr)"
    done = python("-c", code, *words)
    assert done.stderr == "[]\n"
    assert done.stdout


def test_the_version_is_told(stoker: Stoker) -> None:
    told = stoker("--version")
    assert (told.code, told.out, told.err) == (0, f"stoker {__version__}\n", "")


@pytest.mark.parametrize("words", [["--help"], ["-h"]])
def test_help_lists_the_commands(stoker: Stoker, words: list[str]) -> None:
    told = stoker(*words)
    assert told.code == 0
    for command in ("run", "plugins", "stages", "data"):
        assert f"\n  {command} " in told.out
    assert "--traceback" in told.out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "Usage: stoker"),
        (["rnu"], "No such command 'rnu'"),
        (["run"], "Missing argument 'PIPELINE'"),
        (["run", "x", "--epoch", "3"], "No such option: --epoch"),
        (["run", "x", "--epochs", "0"], "Invalid value for '--epochs'"),
        (["run", "x", "--epochs", "many"], "Invalid value for '--epochs'"),
        (["stages", "a", "b"], "unexpected extra argument"),
    ],
    ids=range(7),
)
def test_wrong_words_are_wrong_use(stoker: Stoker, words: list[str], expected: str) -> None:
    told = stoker(*words)
    assert told.code == 2
    assert expected in told.err + told.out
    assert "Traceback" not in told.err
    if words:
        assert told.out == ""
        as_json = stoker(*words, "--json")
        assert as_json.code == 2
        assert as_json.json.keys() == {"error", "exit_code"}
        assert as_json.json["exit_code"] == 2
        assert expected in as_json.json["error"]


def test_an_error_is_one_message_and_a_trace_only_when_asked_for(
    stoker: Stoker, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("def broken(): raise ValueError('no luck')")
    words = ("run", "declared.py:broken")
    told = stoker(*words)
    assert (told.code, told.out) == (2, "")
    assert told.err == "stoker: declared.py:broken failed: ValueError: no luck\n"
    for asked in (stoker(*words, "--traceback"), stoker("--traceback", *words)):
        assert "Traceback" in asked.err
        assert "in broken" in asked.err
        assert asked.err.endswith(told.err)
    for value, traced in (("1", True), ("0", False), ("", False)):
        monkeypatch.setenv("STOKER_TRACEBACK", value)
        assert ("Traceback" in stoker(*words).err) == traced
    monkeypatch.setenv("STOKER_TRACEBACK", "1")
    as_json = stoker(*words, "--json")
    assert as_json.json["error"] == "declared.py:broken failed: ValueError: no luck"
    assert "Traceback" in as_json.err


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        ("KeyboardInterrupt", 130, "interrupted"),
        ("errors.VerdictError('too slow')", 3, "too slow"),
        ("errors.StaleError('old')", 4, "old"),
        ("errors.RunError('broke')", 1, "broke"),
        ("errors.UsageError('wrong')", 2, "wrong"),
    ],
)
def test_each_kind_of_error_has_its_exit_code(
    stoker: Stoker, write: Write, raised: str, code: int, message: str
) -> None:
    write(f"from stoker import errors\ndef ends(): raise {raised}")
    told = stoker("run", "declared.py:ends")
    assert (told.code, told.out, told.err) == (code, "", f"stoker: {message}\n")
    as_json = stoker("run", "declared.py:ends", "--json")
    assert (as_json.code, as_json.json) == (code, {"error": message, "exit_code": code})


@pytest.mark.parametrize("raised", ["ValueError('odd')", "SystemExit(0)", "BaseException('odd')"])
def test_a_fault_of_ours_is_told_in_one_line(
    stoker: Stoker, monkeypatch: pytest.MonkeyPatch, raised: str
) -> None:
    error = eval(raised)

    def breaks() -> None:
        raise error

    monkeypatch.setattr("stoker.cli.stages.host", breaks)
    told = stoker("stages")
    assert (told.code, told.out) == (1, "")
    name = raised.partition("(")[0]
    assert told.err == f"stoker: {name}: {error} (--traceback shows where)\n"


def test_what_plugins_and_pipelines_print_stays_off_the_one_object(
    stoker: Stoker, write: Write, plug: Plug
) -> None:
    plug("loud", "print('plugged')")
    write("print('imported')\ndef made():\n    print('called')\n    raise ValueError('x')")
    told = stoker("run", "declared.py:made", "--json")
    assert told.json == {"error": "declared.py:made failed: ValueError: x", "exit_code": 2}
    assert told.err.startswith("imported\ncalled\n")
    assert stoker("stages", "--json").json["stages"]
    plug("louder", "print('plugged')")
    told = stoker("plugins", "--json")
    assert "louder" in [plugin["name"] for plugin in told.json["plugins"]]
    assert "plugged" in told.err
    assert stoker("run", "declared.py:made").out == "called\n"


def test_a_conflict_of_plugins_leaves_help_alone(stoker: Stoker, plug: Plug) -> None:
    source = """
        from stoker.plugins import StageEntry, hookimpl
        @hookimpl
        def stoker_stages(): yield StageEntry("read.files", "toys:Numbers", "read")
    """
    plug("mine", source, "acme-stoker", "1.2")
    told = stoker("stages")
    assert (told.code, told.out) == (2, "")
    for named in ("'read' (stoker ", "'mine' (acme-stoker 1.2)", "STOKER_DISABLE=mine"):
        assert named in told.err
    assert stoker("stages", "--json").json["exit_code"] == 2
    assert stoker("--help").code == stoker("--version").code == 0


@pytest.mark.parametrize("words", [["stages"], ["stages", "--json"], ["--help"]], ids=" ".join)
def test_a_reader_that_goes_away_is_no_error(words: list[str]) -> None:
    # A pipe whose reading end is closed, as after `stoker stages | true`.
    code = (
        "import os, subprocess, sys; r, w = os.pipe(); os.close(r);"
        f"done = subprocess.run([sys.executable, '-c', {CALL + 'sys.exit(code)'!r}, *sys.argv[1:]],"
        "stdout=w, stderr=subprocess.PIPE); print(done.returncode, done.stderr)"
    )
    done = python("-c", code, *words)
    assert done.stdout == "1 b''\n"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
@pytest.mark.parametrize("words", ["--help", "stages", "plugins", "run --help", "data --help"])
def test_a_narrow_terminal_is_kept_to(
    stoker: Stoker, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    lines = stoker(*words.split()).out.splitlines()
    assert lines
    assert [line for line in lines if len(line) > 60] == []
    assert [line for line in lines if line != line.rstrip()] == []


def test_the_installed_script_is_this() -> None:
    done = python("-c", CALL + "sys.exit(code)", "stages", "read.filez")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("stoker: no stage 'read.filez'; did you mean 'read.files'?")
