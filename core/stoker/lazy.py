"""Lazy exports for packages whose members import torch."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a module `__getattr__` that imports each name from its submodule on first use.

    Args:
        package: the package's `__name__`.
        homes: submodule by exported name.
    """

    def __getattr__(name: str) -> Any:  # noqa: N807 - becomes the module's own
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)

    return __getattr__
