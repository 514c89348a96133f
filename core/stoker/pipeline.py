"""What a user declares: a chain of stages and how to run it."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from stoker import parameters
from stoker.errors import UsageError, describe_given, unknown_name
from stoker.parameters import param
from stoker.plugins import host
from stoker.policy import Memory, Precision
from stoker.stages import Stage

if TYPE_CHECKING:
    from stoker.loader import Loader


@dataclass(frozen=True)
class Quarantine:
    """Error policy: leave failing samples out, note each, and stop past the budget.

    Args:
        budget: samples that may fail in one run before it stops.
    """

    budget: int = 100


OnError = Literal["raise"] | Quarantine


@dataclass(frozen=True)
class Options:
    """How a pipeline runs: what stands beside its stages."""

    epochs: int = param(1, "passes over the data", minimum=1)
    seed: int = param(0, "of order, augmentation and weights", minimum=0)
    precision: str | Precision = param("fp32", "policy that the step computes in")
    memory: tuple[Memory, ...] = param((), "policies that trade time for memory")
    evaluate: Any = param(
        None, "pipeline (or function making one) that measures the model after each epoch"
    )
    in_order: bool = param(True, "deliver by position; False suits heavy tails")
    on_error: OnError = param("raise", "what a failing sample does")
    pushdown: bool = param(True, "let decoders make only what a crop after them uses")
    prefetch_bytes: int | None = param(
        None, "bound on all that is prefetched; None: a tenth of available memory", minimum=1
    )
    prefetch_batches: int = param(4, "batches kept ready", minimum=1)
    worker_timeout: float | None = param(
        300.0,
        "longest silence of a worker's process before it is replaced; None: for ever",
        unit="s",
        minimum=0.1,
    )
    max_steps: int | None = param(None, "stop after so many batches", minimum=1)
    max_time: float | None = param(None, "stop after so long", unit="s", minimum=0.0)
    save_every_steps: int | None = param(
        None, "batches between two checkpoints; None: by time alone", minimum=1
    )
    save_every_minutes: float | None = param(
        10.0, "time between two checkpoints; None: by steps alone", unit="min", minimum=0.0
    )
    keep_checkpoints: int = param(2, "newest checkpoints to keep", minimum=1)
    rank: int | None = param(
        None, "of this process among those that share the data; None: torchrun's", minimum=0
    )
    world_size: int | None = param(
        None, "processes that share the data; None: torchrun's, or 1", minimum=1
    )
    device: str = param("auto", "torch device of the step; auto: an accelerator, else the CPU")


@contextmanager
def _no_collection() -> Iterator[None]:
    """Put the garbage collector off: with torch's objects about, each of its rounds takes 80 ms,
    and what starting imports sets off one or two of them for nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class Pipeline:
    """A chain of stages, from storage to step, and its options. Immutable.

    Args:
        name: what listings and run folders call it.
        stages: a source, then stages in the order in which data flows.
        options: the fields of `Options` by name.

    Used as a context manager it is a loader: `with pipeline as loader: for batch in loader: ...`.

    Raises:
        UsageError: something that is no stage, or an unknown option.
    """

    def __init__(self, name: str, *stages: Stage, **options: Any) -> None:
        if not isinstance(name, str):
            raise UsageError(
                f"a pipeline's name comes first, as text, then its stages; given was "
                f"{describe_given(name)}"
            )
        wrong = [thing for thing in stages if not isinstance(thing, Stage)]
        if wrong:
            given = wrong[0]
            hint = "wrap a plain function in augment.Apply(function)"
            if isinstance(given, type):
                hint = f"make it with parentheses: {given.__name__}(...)"
            raise UsageError(f"pipeline {name!r}: {describe_given(given)} is no stage; {hint}")
        known = [field.name for field in dataclasses.fields(Options)]
        unknown = [
            unknown_name("pipeline option", key, known) for key in options if key not in known
        ]
        if unknown:
            raise UsageError(f"pipeline {name!r}: " + "; ".join(unknown))
        memory = options.get("memory") or ()
        options["memory"] = tuple(memory) if isinstance(memory, (list, tuple)) else (memory,)
        self.name = name
        self.stages = tuple(stages)
        self.options = Options(**options)
        self._entered: list[Loader] = []

    # -- addressing --------------------------------------------------------------

    @property
    def addresses(self) -> list[str]:
        """Each stage's unique name: its own, with `#2` from the second occurrence on."""
        return unique_names(self.stages)

    def find(self, address: str) -> int:
        """Return the index of the stage that an address names.

        An address is a name (`decode.image`), a kind that only one stage has (`decode`;
        companions do not count), or either with an occurrence (`augment#2`).

        Raises:
            UsageError: it names no stage, or several.
        """
        wanted, _, number = address.partition("#")
        by_name = [i for i, stage in enumerate(self.stages) if stage.name == wanted]
        of_kind = [i for i, stage in enumerate(self.stages) if stage.kind == wanted]
        matches = by_name or of_kind
        if number and matches:
            if number.isdecimal() and 1 <= int(number) <= len(matches):
                return matches[int(number) - 1]
            raise UsageError(f"no stage {address!r}: {wanted!r} occurs {len(matches)} times")
        if len(matches) > 1 and not by_name:
            matches = [i for i in matches if not self.stages[i].companion] or matches
        if len(matches) == 1:
            return matches[0]
        if not matches:
            known = {stage.name for stage in self.stages} | {stage.kind for stage in self.stages}
            raise UsageError(unknown_name("stage", address, known, owner=f"pipeline {self.name!r}"))
        kin = by_name or of_kind
        choices = ", ".join(f"{wanted}#{kin.index(i) + 1} ({self.stages[i].name})" for i in matches)
        raise UsageError(f"{address!r} names {len(matches)} stages; say which: {choices}")

    # -- changed copies ----------------------------------------------------------

    def with_options(self, **changes: Any) -> Pipeline:
        """Return a copy with other options."""
        current = {
            field.name: getattr(self.options, field.name) for field in dataclasses.fields(Options)
        }
        return Pipeline(self.name, *self.stages, **{**current, **changes})

    def with_stage(self, address: str | int, stage: Stage) -> Pipeline:
        """Return a copy with another stage at an address."""
        index = address if isinstance(address, int) else self.find(address)
        stages = (*self.stages[:index], stage, *self.stages[index + 1 :])
        copy = Pipeline(self.name, *stages)
        copy.options = self.options
        return copy

    # -- running -----------------------------------------------------------------

    def loader(self) -> Loader:
        """Plan and open this pipeline, its step left out, as a loader. Close it when done."""
        with _no_collection():
            from stoker.loader import Loader

            return Loader(self)

    def __enter__(self) -> Loader:
        self._entered.append(self.loader())
        return self._entered[-1]

    def __exit__(self, *error: object) -> None:
        self._entered.pop().close()

    # -- value semantics ---------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pipeline):
            return NotImplemented
        mine = (self.name, self.stages, self.options)
        return mine == (other.name, other.stages, other.options)

    __hash__ = None  # type: ignore[assignment]  # parameters may be unhashable

    def __repr__(self) -> str:
        lines = [f"    {parameters.shown(stage)}," for stage in self.stages]
        for field in dataclasses.fields(Options):
            value = getattr(self.options, field.name)
            if value != field.default:
                shown = value.name if isinstance(value, Pipeline) else value
                lines.append(f"    {field.name}={describe_given(shown)},")
        return "\n".join([f"Pipeline({self.name!r},", *lines, ")"])


def unique_names(stages: Sequence[Stage]) -> list[str]:
    """Return a unique name for each stage, `#2` and so on from the second occurrence."""
    return [name for name, _ in _occurrences(stages)]


def _occurrences(stages: Sequence[Stage]) -> Iterator[tuple[str, int]]:
    seen: dict[str, int] = {}
    for stage in stages:
        name = stage.name or type(stage).__name__
        seen[name] = count = seen.get(name, 0) + 1
        yield (name if count == 1 else f"{name}#{count}"), count


def stage(name: str, **given: Any) -> Stage:
    """Make a registered stage by name: `stage("acme.blur", radius=2)`.

    Raises:
        UsageError: no such stage or parameter, or a required parameter is missing.
    """
    made: Stage = parameters.build(host().stage_class(name), name, given)
    return made


def resolve_policy(family: str, given: str | Any) -> Any:
    """Return a policy given as an object, or by name ("bf16", "precision.bf16")."""
    if not isinstance(given, str):
        return given
    cls = host().policy_class(family, given)
    return parameters.build(cls, cls.name, {})
