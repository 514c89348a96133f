"""The plugin host: discovery over entry points, conflicts, broken plugins, listing.

Nothing here is module-global but a cache of the default host, so that tests and
embedders can have hosts of their own. A plugin that fails to import is recorded
with its error and takes nobody else down.
"""

from __future__ import annotations

import importlib
import os
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import pluggy

from stoker.errors import PluginConflictError, UnknownNameError, UsageError
from stoker.hookspecs import (
    GROUP,
    DataEntry,
    Entry,
    Hooks,
    PipelineEntry,
    PolicyEntry,
    StageEntry,
    hookimpl,
)
from stoker.observer import Observer
from stoker.stages import Stage

__all__ = [
    "DataEntry",
    "Host",
    "PipelineEntry",
    "PolicyEntry",
    "StageEntry",
    "hookimpl",
    "host",
    "load_target",
]

OWN_DISTRIBUTION = "stoker"
_E = TypeVar("_E", Entry, StageEntry)


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


@dataclass(frozen=True)
class Found:
    """An entry point, or its like in a checkout."""

    name: str
    target: str
    distribution: str
    version: str


def installed() -> list[Found]:
    """Return the plugins that installed distributions announce."""
    found = []
    for point in metadata.entry_points(group=GROUP):
        dist = point.dist
        found.append(
            Found(
                point.name,
                point.value,
                dist.name if dist else "unknown",
                dist.version if dist else "",
            )
        )
    return sorted(set(found), key=lambda item: (item.distribution, item.name))


def from_checkout() -> list[Found]:
    """Return the built-in plugins that a checkout's pyproject.toml announces, else nothing."""
    import tomllib

    project = Path(__file__).resolve().parents[2] / "pyproject.toml"
    if not project.is_file():
        return []
    table = tomllib.loads(project.read_text()).get("project", {})
    if table.get("name") != OWN_DISTRIBUTION:
        return []
    points = table.get("entry-points", {}).get(GROUP, {})
    version = table.get("version", "")
    return [Found(name, target, OWN_DISTRIBUTION, version) for name, target in points.items()]


def load_target(target: str) -> Any:
    """Import "module:attribute" (or a module alone) and return it."""
    module_name, _, attribute = target.partition(":")
    thing: Any = importlib.import_module(module_name)
    for part in filter(None, attribute.split(".")):
        thing = getattr(thing, part)
    return thing


class Host:
    """All plugins of one process, loaded once.

    Args:
        found: what to load; None discovers what is installed, else the checkout.
        disable: plugin names to leave out; None reads `STOKER_DISABLE` (commas between).
    """

    def __init__(
        self, found: Iterable[Found] | None = None, disable: Iterable[str] | None = None
    ) -> None:
        self.notes: list[str] = []
        """Remarks on discovery that a listing should show."""
        self.plugins: list[Plugin] = []
        self._manager = pluggy.PluginManager(GROUP)
        self._manager.add_hookspecs(Hooks)
        if disable is None:
            disable = os.environ.get("STOKER_DISABLE", "").split(",")
        disabled = {name.strip() for name in disable if name.strip()}
        for item in self._discover() if found is None else found:
            self._load(item, disabled)
        unknown = disabled - {plugin.name for plugin in self.plugins}
        for name in sorted(unknown):
            self.notes.append(f"STOKER_DISABLE names {name!r}, which is no plugin here")
        self.stages: Mapping[str, StageEntry] = self._collect("stages", StageEntry)
        self.precisions: Mapping[str, Entry] = self._collect("precisions", PolicyEntry)
        self.memory: Mapping[str, Entry] = self._collect("memory", PolicyEntry)
        self.pipelines: Mapping[str, Entry] = self._collect("pipelines", PipelineEntry)
        self.data: Mapping[str, Entry] = self._collect("data", DataEntry)

    # -- loading ---------------------------------------------------------------

    def _discover(self) -> list[Found]:
        found = installed()
        if not any(item.distribution == OWN_DISTRIBUTION for item in found):
            own = from_checkout()
            if own:
                self.notes.append(
                    "no installed entry points: built-in plugins come from this checkout's "
                    "pyproject.toml (pip install -e . to install them)"
                )
            found = own + found
        return found

    def _load(self, item: Found, disabled: set[str]) -> None:
        plugin = Plugin(item.name, item.target, item.distribution, item.version)
        twin = self._manager.get_plugin(item.name)
        if twin is not None:
            first = next(other for other in self.plugins if other.name == item.name)
            raise PluginConflictError(
                f"two plugins are named {item.name!r}: one from {first.source}, one from "
                f"{plugin.source}; uninstall one of the distributions"
            )
        self.plugins.append(plugin)
        if item.name in disabled:
            plugin.state = "disabled"
            return
        try:
            self._manager.register(load_target(item.target), name=item.name)
            self._manager.check_pending()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a plugin's SystemExit must not end the host either
            # A half-registered plugin would answer hooks and fail check_pending for others.
            if self._manager.get_plugin(item.name) is not None:
                self._manager.unregister(name=item.name)
            self._break(plugin, error)

    @staticmethod
    def _break(plugin: Plugin, error: BaseException) -> None:
        plugin.state = "broken"
        lines = str(error).strip().splitlines() or [""]
        plugin.error = f"{type(error).__name__}: {lines[0]}"
        plugin.trace = "".join(traceback.format_exception(error))

    def _answers(self, hook: str) -> Iterator[tuple[Plugin, list[Any]]]:
        """Yield each healthy plugin with what its hook returns, breaking those that raise."""
        by_name = {plugin.name: plugin for plugin in self.plugins if plugin.state == "ok"}
        for implementation in getattr(self._manager.hook, hook).get_hookimpls():
            plugin = by_name.get(implementation.plugin_name)
            if plugin is None:
                continue
            try:
                yield plugin, list(implementation.function() or ())
            except Exception as error:
                self._break(plugin, error)

    def _collect(self, family: str, kind: type[_E]) -> dict[str, _E]:
        owners: dict[str, Plugin] = {}
        entries: dict[str, _E] = {}
        for plugin, answer in self._answers(f"stoker_{family}"):
            wrong = [entry for entry in answer if not isinstance(entry, kind)]
            if wrong:
                self._break(
                    plugin, TypeError(f"stoker_{family} gave {wrong[0]!r}, not a {kind.__name__}")
                )
                continue
            for entry in answer:
                if entry.name in owners:
                    raise PluginConflictError(
                        f"{family} name {entry.name!r} is claimed by two plugins: "
                        f"{owners[entry.name].name!r} ({owners[entry.name].source}) and "
                        f"{plugin.name!r} ({plugin.source}); uninstall one, or set "
                        f"STOKER_DISABLE={plugin.name}"
                    )
                owners[entry.name] = plugin
                entries[entry.name] = entry
            plugin.brings[family] = [entry.name for entry in answer]
        return entries

    # -- use -------------------------------------------------------------------

    @property
    def hook(self) -> Any:
        """pluggy's hook callers, for `stoker_check`, `stoker_run` and `stoker_advise`."""
        return self._manager.hook

    def observers(self) -> list[Observer]:
        """Return new observers from all plugins."""
        return [watcher for _, answer in self._answers("stoker_observers") for watcher in answer]

    def stage_class(self, name: str) -> type[Stage]:
        """Return the class of a registered stage.

        Raises:
            UnknownNameError: nobody registered `name`.
            UsageError: it cannot be imported, or differs from its announcement.
        """
        entry = self._find("stage", name, self.stages, "stoker stages lists")
        cls = self._import(entry)
        if not (isinstance(cls, type) and issubclass(cls, Stage)):
            raise UsageError(f"stage {name!r} is announced as {entry.target}, which is no Stage")
        if (cls.name, cls.kind) != (entry.name, entry.kind):
            raise UsageError(
                f"stage {name!r} is announced as kind {entry.kind!r}, but {entry.target} says "
                f"name {cls.name!r}, kind {cls.kind!r}; make the StageEntry agree"
            )
        return cls

    def policy_class(self, family: str, name: str) -> type[Any]:
        """Return the class of a policy: family "precision" or "memory", name with or without it."""
        known = self.precisions if family == "precision" else self.memory
        full = name if name.startswith(f"{family}.") or name in known else f"{family}.{name}"
        cls = self._import(self._find(family, full, known, "known policies:"))
        assert isinstance(cls, type)
        return cls

    def pipeline_factory(self, name: str) -> Any:
        """Return the function that makes a registered pipeline."""
        return self._import(self._find("pipeline", name, self.pipelines, "registered:"))

    def data_maker(self, name: str) -> Any:
        """Return the function that makes a registered data set."""
        return self._import(self._find("data set", name, self.data, "stoker data lists"))

    def _find(self, what: str, name: str, known: Mapping[str, _E], listing: str) -> _E:
        if name in known:
            return known[name]
        hint = f"{listing} {len(known)}"
        broken = [plugin.name for plugin in self.plugins if plugin.state == "broken"]
        if broken:
            hint += f"; broken plugins: {', '.join(broken)}, see stoker plugins"
        raise UnknownNameError(what, name, known, hint)

    @staticmethod
    def _import(entry: Entry | StageEntry) -> Any:
        try:
            return load_target(entry.target)
        except Exception as error:
            raise UsageError(
                f"{entry.name!r} could not be loaded from {entry.target}: "
                f"{type(error).__name__}: {error}"
            ) from error


@cache
def host() -> Host:
    """Return this process's plugin host, discovered on first use."""
    return Host()
