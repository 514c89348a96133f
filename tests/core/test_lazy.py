"""Lazy exports: nothing is imported before it is used."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from processes import python
from stoker.lazy import lazy


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    folder = tmp_path / "lazily_made"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from stoker.lazy import lazy\n__all__ = ['Blur']\n"
        "__getattr__ = lazy(__name__, {'Blur': 'blur', 'Gone': 'gone', 'Absent': 'blur'})\n"
    )
    (folder / "blur.py").write_text("class Blur: pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import lazily_made  # type: ignore[import-not-found]

    yield lazily_made
    for name in [name for name in sys.modules if name.startswith("lazily_made")]:
        del sys.modules[name]


def test_a_name_is_imported_when_it_is_used(package: types.ModuleType) -> None:
    assert "lazily_made.blur" not in sys.modules
    assert package.Blur.__module__ == "lazily_made.blur"
    assert package.Blur is package.Blur
    from lazily_made import Blur

    assert Blur is package.Blur


def test_a_name_that_is_not_there_is_an_attribute_error(package: types.ModuleType) -> None:
    with pytest.raises(AttributeError, match="module 'lazily_made' has no attribute 'Flip'"):
        package.Flip
    with pytest.raises(AttributeError, match="Absent"):
        package.Absent
    assert not hasattr(package, "__wrapped__")


def test_an_import_that_fails_says_so(package: types.ModuleType) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"lazily_made\.gone"):
        package.Gone


def test_the_function_is_for_one_package() -> None:
    with pytest.raises(AttributeError, match="module 'other'"):
        lazy("other", {})("x")


def test_no_plugin_package_imports_what_its_stages_need() -> None:
    code = (
        "import sys, stoker, importlib, tomllib\n"
        "from stoker.discovery import from_checkout\n"
        "for found in from_checkout(): importlib.import_module(found.target)\n"
        "heavy = {'torch', 'numpy', 'PIL', 'webdataset', 'sklearn', 'pydantic', 'rich'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = python("-c", code)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
