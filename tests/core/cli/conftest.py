"""The command line as a function, and files of pipelines for it."""

from __future__ import annotations

import importlib
import json
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stoker import discovery, plugins
from stoker.cli import main
from stoker.plugins import Found


@dataclass
class Told:
    """What a command said, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one object on standard output."""
        return json.loads(self.out)


Stoker = Callable[..., Told]
Write = Callable[..., str]
Plug = Callable[..., None]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stand in an empty folder, in a terminal of 120 columns; forget what was imported from it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    for name in ("STOKER_TRACEBACK", "STOKER_DISABLE", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def stoker(capsys: pytest.CaptureFixture[str]) -> Stoker:
    """Return the command line as a function of its words."""

    def run(*words: str) -> Told:
        code = main(words)
        captured = capsys.readouterr()
        return Told(code, captured.out, captured.err)

    return run


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return what writes a file of pipelines and names it."""

    def written(source: str, name: str = "declared.py") -> str:
        (tmp_path / name).write_text(
            "from stoker import Pipeline\n"
            "from stoker_plugins import augment, collate, decode, read, step\n"
            + textwrap.dedent(source)
        )
        importlib.invalidate_caches()
        return name

    return written


@pytest.fixture
def plug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plug]:
    """Return what puts a plugin beside the built-in ones."""
    found = discovery.installed() or discovery.from_checkout()
    monkeypatch.setattr(plugins, "installed", lambda: found)
    sys.path.insert(0, str(tmp_path))

    def put(name: str, source: str, dist: str = "acme-stoker", version: str = "1.2") -> None:
        module = f"plugged_{name}_{len(found)}"
        (tmp_path / f"{module}.py").write_text(textwrap.dedent(source))
        importlib.invalidate_caches()
        found.append(Found(name, module, dist, version))
        plugins.host.cache_clear()

    yield put
    plugins.host.cache_clear()
