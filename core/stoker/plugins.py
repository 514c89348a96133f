"""The plugin host: discovery over entry points, conflicts, broken plugins, listing.

Nothing here is module-global but a cache of the default host, so that tests and
embedders can have hosts of their own. A plugin that fails to import is recorded
with its error and takes nobody else down.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, TypeVar

import pluggy

from stoker.discovery import OWN_DISTRIBUTION, Found, from_checkout, installed, load_target
from stoker.errors import (
    PluginConflictError,
    UnknownNameError,
    UsageError,
    describe_given,
    reason_of,
)
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
from stoker.policy import Memory, Policy, Precision
from stoker.stages import Caution, Stage
from stoker.vetting import Plugin, breaking, check_entries, check_marked

__all__ = [
    "DataEntry",
    "Found",
    "Host",
    "PipelineEntry",
    "PolicyEntry",
    "StageEntry",
    "hookimpl",
    "host",
    "load_target",
]

_E = TypeVar("_E", Entry, StageEntry)
_ENTRIES = {
    "stages": StageEntry,
    "precisions": PolicyEntry,
    "memory": PolicyEntry,
    "pipelines": PipelineEntry,
    "data": DataEntry,
}
"""What a plugin brings, by family: `stoker_FAMILY` is the hook."""


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
        self._brought: dict[str, list[tuple[Plugin, list[Any]]]] = {}
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
        for family in _ENTRIES:
            self._ask(family)
        # Only now is it known who is broken: a broken plugin brings nothing at all.
        self.stages: Mapping[str, StageEntry] = self._collected("stages")
        self.precisions: Mapping[str, Entry] = self._collected("precisions")
        self.memory: Mapping[str, Entry] = self._collected("memory")
        self.pipelines: Mapping[str, Entry] = self._collected("pipelines")
        self.data: Mapping[str, Entry] = self._collected("data")

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
        twin = next((other for other in self.plugins if other.name == item.name), None)
        self.plugins.append(plugin)
        if item.name in disabled:
            plugin.state = "disabled"
            return
        if twin is not None:
            raise PluginConflictError(
                f"two plugins are named {item.name!r}: one from {twin.source}, one from "
                f"{plugin.source}; uninstall one of the distributions, or leave both out with "
                f"STOKER_DISABLE={item.name}"
            )
        with breaking(plugin):
            thing = load_target(item.target)
            try:
                self._manager.register(thing, name=item.name)
                self._manager.check_pending()
                check_marked(thing)
            except BaseException:
                # A half-registered plugin would answer hooks and fail check_pending for others.
                if self._manager.get_plugin(item.name) is not None:
                    self._manager.unregister(name=item.name)
                raise

    def _answers(self, hook: str, **given: Any) -> Iterator[tuple[Plugin, list[Any]]]:
        """Yield each healthy plugin with what its hook returns, breaking those that raise."""
        healthy = {plugin.name: plugin for plugin in self.plugins if plugin.state == "ok"}
        for implementation in getattr(self._manager.hook, hook).get_hookimpls():
            plugin = healthy.get(implementation.plugin_name)
            if plugin is None:
                continue
            answer: list[Any] | None = None
            with breaking(plugin, hook):
                asked = [given[name] for name in implementation.argnames]
                said = implementation.function(*asked)
                # A context manager is one answer, and may happen to be iterable too.
                answer = [said] if hasattr(said, "__enter__") else list(said or ())
            if answer is not None:
                yield plugin, answer

    def _ask(self, family: str) -> None:
        for plugin, answer in self._answers(f"stoker_{family}"):
            with breaking(plugin, f"stoker_{family}"):
                check_entries(answer, _ENTRIES[family])
                self._brought.setdefault(family, []).append((plugin, answer))
                plugin.brings[family] = [entry.name for entry in answer]

    def _collected(self, family: str) -> dict[str, Any]:
        owners: dict[str, Plugin] = {}
        entries: dict[str, Any] = {}
        for plugin, answer in self._brought.get(family, []):
            if plugin.state != "ok":
                continue
            for entry in answer:
                if entry.name in owners:
                    owner = owners[entry.name]
                    raise PluginConflictError(
                        f"{family} name {entry.name!r} is claimed by two plugins: "
                        f"{owner.name!r} ({owner.source}) and {plugin.name!r} "
                        f"({plugin.source}); uninstall one, or set STOKER_DISABLE={plugin.name}"
                    )
                owners[entry.name] = plugin
                entries[entry.name] = entry
        return entries

    # -- use -------------------------------------------------------------------

    @property
    def hook(self) -> Any:
        """pluggy's hook callers, for `stoker_check`, `stoker_run` and `stoker_advise`."""
        return self._manager.hook

    def observers(self) -> list[Observer]:
        """Return new observers from all plugins."""
        found: list[Observer] = []
        for plugin, answer in self._answers("stoker_observers"):
            with breaking(plugin, "stoker_observers"):
                wrong = [thing for thing in answer if not isinstance(thing, Observer)]
                if wrong:
                    raise TypeError(f"gave {describe_given(wrong[0])}, not an Observer")
                found += answer
        return found

    def check(self, plan: Any) -> list[str]:
        """Return what plugins find wrong with a plan; a plugin that fails at it is a caution."""
        before = {plugin.name for plugin in self.plugins if plugin.state == "broken"}
        remarks = [
            remark for _, answer in self._answers("stoker_check", plan=plan) for remark in answer
        ]
        return remarks + [Caution(text) for text in self._newly_broken(before)]

    def wrappers(self, plan: Any) -> list[AbstractContextManager[Any]]:
        """Return the contexts that plugins want around a run."""
        return [one for _, answer in self._answers("stoker_run", plan=plan) for one in answer]

    def _newly_broken(self, before: set[str]) -> list[str]:
        return [
            f"plugin {plugin.name!r} ({plugin.source}) broke: {plugin.error}"
            for plugin in self.plugins
            if plugin.state == "broken" and plugin.name not in before
        ]

    def broken(self) -> list[str]:
        """Return a line for each plugin that is broken."""
        return self._newly_broken(set())

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

    def policy_class(self, family: str, name: str) -> type[Policy]:
        """Return the class of a policy: family "precision" or "memory", name with or without it.

        Raises:
            UnknownNameError: nobody registered `name`.
            UsageError: it cannot be imported, or differs from its announcement.
        """
        known, base = (
            (self.precisions, Precision) if family == "precision" else (self.memory, Memory)
        )
        full = name if name.startswith(f"{family}.") or name in known else f"{family}.{name}"
        entry = self._find(f"{family} policy", full, known, "known policies:")
        cls = self._import(entry)
        if not (isinstance(cls, type) and issubclass(cls, base)):
            raise UsageError(
                f"policy {full!r} is announced as {entry.target}, which is no {base.__name__}"
            )
        if cls.name != entry.name:
            raise UsageError(
                f"policy {full!r} is announced, but {entry.target} says name {cls.name!r}; "
                "make the PolicyEntry agree"
            )
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
        except (Exception, SystemExit) as error:
            raise UsageError(
                f"{entry.name!r} could not be loaded from {entry.target}: {reason_of(error)}"
            ) from error


@cache
def host() -> Host:
    """Return this process's plugin host, discovered on first use."""
    return Host()
