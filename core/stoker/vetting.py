"""One plugin on probation: what is wrong with it is recorded, and breaks nobody else."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from typing import Any

from stoker.errors import describe_given, reason_of
from stoker.hookspecs import GROUP, Hooks


@dataclass
class Plugin:
    """One plugin as found: where it comes from, and what became of it."""

    name: str
    target: str
    distribution: str
    version: str
    state: str = "ok"
    """"ok", "broken" or "disabled"."""
    error: str = ""
    """What broke it, in one line; `trace` has the whole."""
    trace: str = ""
    brings: dict[str, list[str]] = field(default_factory=dict)
    """Names it brings, by family (stages, precisions, ...)."""

    @property
    def source(self) -> str:
        """Distribution and version, as messages name it."""
        return f"{self.distribution} {self.version}".strip()


@contextmanager
def breaking(plugin: Plugin, hook: str = "") -> Iterator[None]:
    """Record what a plugin raises, and go on without it.

    Args:
        plugin: whose code runs.
        hook: which of its hooks, for the message.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plugin's SystemExit must not end the host either
        plugin.state = "broken"
        first_line = reason_of(error).splitlines()[0]
        plugin.error = f"{hook}: {first_line}" if hook else first_line
        plugin.trace = "".join(traceback.format_exception(error))
        plugin.brings.clear()


def check_marked(plugin: Any) -> None:
    """Raise where a hook lacks its mark: pluggy would pass over it silently."""
    for name in vars(Hooks):
        function = getattr(plugin, name, None) if name.startswith(f"{GROUP}_") else None
        if callable(function) and not hasattr(function, f"{GROUP}_impl"):
            raise TypeError(f"{name} is not marked; decorate it with @hookimpl")


def check_entries(answer: list[Any], kind: type[Any]) -> None:
    """Raise where a plugin's answer is not what its hook asks for."""
    names = set()
    for entry in answer:
        if not isinstance(entry, kind):
            raise TypeError(f"gave {describe_given(entry)}, not a {kind.__name__}")
        if not all(isinstance(text, str) for text in astuple(entry)):
            raise TypeError(f"gave {describe_given(entry)}, whose fields are not all text")
        if not entry.name:
            raise ValueError(f"gave a {kind.__name__} without a name")
        if entry.name in names:
            raise ValueError(f"gave two entries named {entry.name!r}")
        names.add(entry.name)
