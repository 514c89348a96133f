"""The hooks that a plugin may implement, and the descriptors that they return.

A plugin is a module (or object) named by an entry point in the group `stoker`:

    [project.entry-points.stoker]
    acme = "acme_stoker"

with functions such as

    from stoker.plugins import StageEntry, hookimpl

    @hookimpl
    def stoker_stages():
        yield StageEntry("acme.blur", "acme_stoker.blur:Blur", "augment", "blurs a picture")

Descriptors name their target as "module:attribute", so that listing imports no
torch. Hooks run at registration and around a run, never per sample or step.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from stoker.observer import Observer

GROUP = "stoker"
hookspec = pluggy.HookspecMarker(GROUP)
hookimpl = pluggy.HookimplMarker(GROUP)


@dataclass(frozen=True)
class Entry:
    """A name that a plugin brings, and where the thing itself lies."""

    name: str
    target: str
    """"module:attribute", imported when it is first used."""
    summary: str = ""
    """One line for listings."""


@dataclass(frozen=True)
class StageEntry:
    """A stage that a plugin brings."""

    name: str
    """`namespace.variant`; equal to the class's `name`."""
    target: str
    kind: str
    """Equal to the class's `kind`."""
    summary: str = ""


@dataclass(frozen=True)
class PolicyEntry(Entry):
    """A precision or memory policy that a plugin brings."""


@dataclass(frozen=True)
class PipelineEntry(Entry):
    """A ready-made pipeline: a function that returns a `Pipeline`; its arguments are `--arg`."""


@dataclass(frozen=True)
class DataEntry(Entry):
    """A data set that `stoker data NAME` makes: a function whose arguments are the command's."""


class Hooks:
    """All hooks, with an example each."""

    @hookspec
    def stoker_stages(self) -> Iterable[StageEntry]:  # type: ignore[empty-body]
        """Bring stages.

        yield StageEntry("acme.blur", "acme_stoker.blur:Blur", "augment", "blurs a picture")
        """

    @hookspec
    def stoker_precisions(self) -> Iterable[PolicyEntry]:  # type: ignore[empty-body]
        """Bring precision policies.

        yield PolicyEntry("precision.fp8", "acme_stoker.fp8:Fp8", "fp8 matrix products")
        """

    @hookspec
    def stoker_memory(self) -> Iterable[PolicyEntry]:  # type: ignore[empty-body]
        """Bring memory policies.

        yield PolicyEntry("memory.spill", "acme_stoker.spill:Spill", "activations to disk")
        """

    @hookspec
    def stoker_observers(self) -> Iterable[Observer]:  # type: ignore[empty-body]
        """Bring observers of this run; called once a run.

        yield SlackObserver(channel="#nightly")
        """

    @hookspec
    def stoker_pipelines(self) -> Iterable[PipelineEntry]:  # type: ignore[empty-body]
        """Bring ready-made pipelines.

        yield PipelineEntry("scans", "acme_stoker.scans:scans", "CT volumes, 3-D U-Net")
        """

    @hookspec
    def stoker_data(self) -> Iterable[DataEntry]:  # type: ignore[empty-body]
        """Bring makers of data sets for `stoker data`.

        yield DataEntry("scans", "acme_stoker.scans:make", "synthetic CT volumes as shards")
        """

    @hookspec
    def stoker_check(self, plan: Any) -> Iterable[str]:  # type: ignore[empty-body]
        """Yield what is wrong with a plan; a `Caution` only warns.

        if plan.device == "mps": yield "acme.blur has no kernel for mps; use device='cpu'"
        """

    @hookspec
    def stoker_run(self, plan: Any) -> AbstractContextManager[Any] | None:
        """Return a context that wraps the whole run, such as a profiler's, or None.

        return torch.profiler.profile()
        """

    @hookspec
    def stoker_advise(self, diagnosis: Any, plan: Any) -> Iterable[Any]:  # type: ignore[empty-body]
        """Yield remedies for a diagnosed bottleneck, from one who knows the stage."""
