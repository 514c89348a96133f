"""From what a person types to a pipeline: its name, arguments, swapped stages, settings."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from stoker import parameters
from stoker.errors import StokerError, UsageError, reason_of, unknown_name
from stoker.pipeline import Options, Pipeline
from stoker.plugins import host
from stoker.typed import signature_of


@dataclass(frozen=True)
class Changes:
    """What the command line changes about a pipeline.

    Args:
        args: `name=value` for the function that makes it.
        swaps: `address=stage-name`: another stage in its place; parameters of the same
            name carry over.
        sets: `address.parameter=value`.
        options: pipeline options that replace the declared ones.
    """

    args: Sequence[str] = ()
    swaps: Sequence[str] = ()
    sets: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


def configured(name: str, changes: Changes) -> Pipeline:
    """Return the pipeline that a name stands for, with changes.

    Raises:
        UsageError: every wrong name, type and value, at once.
    """
    pipeline = made(find(name), name, changes.args)
    problems: list[str] = []
    failed: set[str] = set()
    for text in changes.swaps:
        try:
            pipeline = _swapped(pipeline, text, changes.sets)
        except UsageError as error:
            problems.append(str(error))
            failed |= set(text.partition("=")[::2])
    for text in changes.sets:
        if text.partition("=")[0].rpartition(".")[0] in failed:
            continue  # meant for a stage that is not there
        try:
            pipeline = _set(pipeline, text)
        except UsageError as error:
            problems.append(str(error))
    _raise(problems)
    given = {key: value for key, value in changes.options.items() if value is not None}
    return pipeline.with_options(**given) if given else pipeline


def _raise(problems: Sequence[str]) -> None:
    if len(problems) == 1:
        raise UsageError(problems[0])
    if problems:
        lines = "".join(f"\n  - {problem}" for problem in problems)
        raise UsageError(f"{len(problems)} problems:{lines}")


def find(name: str) -> Any:
    """Return the pipeline, or the function that makes it.

    Args:
        name: a registered name, `package.module:function`, or `file.py:function`.

    Raises:
        UsageError: nothing is there, or it cannot be imported.
    """
    place, colon, attribute = name.partition(":")
    if not colon and not place.endswith(".py"):
        return host().pipeline_factory(name)
    module = _module(place)
    if not attribute:
        raise UsageError(f"{place}: say which function: {_choices(place, module)}")
    if not hasattr(module, attribute):
        raise UsageError(unknown_name("function", attribute, _makers(module), owner=place))
    return getattr(module, attribute)


def _module(place: str) -> Any:
    if not place.endswith(".py"):
        folder = str(Path.cwd())
        if folder not in sys.path:
            sys.path.insert(0, folder)
        return _imported(place, place)
    path = Path(place)
    if not path.is_file():
        raise UsageError(f"{place}: no such file (looked in {Path.cwd()})")
    if not path.stem.isidentifier():
        raise UsageError(f"{place}: its name must be importable: letters, digits, underscores")
    # The folder stays on the path, so that worker processes import it by the same name.
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    known = sys.modules.get(path.stem)
    module = known if known is not None else _imported(path.stem, place)
    other = getattr(module, "__file__", None)
    if other is None or Path(other).resolve() != path.resolve():
        raise UsageError(
            f"{place}: another module is named {path.stem!r} ({other or 'built in'}); "
            "rename the file"
        )
    return module


def _imported(module: str, place: str) -> Any:
    importlib.invalidate_caches()  # the file may be younger than the last look at its folder
    try:
        return importlib.import_module(module)
    except (Exception, SystemExit) as error:
        raise UsageError(f"{place} could not be imported: {reason_of(error)}") from error


def _choices(place: str, module: Any) -> str:
    return ", ".join(f"{place}:{key}" for key in _makers(module)) or f"{place}:NAME"


def _makers(module: Any) -> list[str]:
    """Return the names of a module's own functions and pipelines."""
    return [
        key
        for key, value in vars(module).items()
        if not key.startswith("_")
        and (isinstance(value, Pipeline) or getattr(value, "__module__", "") == module.__name__)
        and (callable(value) or isinstance(value, Pipeline))
    ]


def made(thing: Any, name: str, args: Sequence[str]) -> Pipeline:
    """Return the pipeline that a function makes of `name=value` arguments.

    Raises:
        UsageError: wrong arguments, or no pipeline came of it.
    """
    if isinstance(thing, Pipeline):
        if args:
            raise UsageError(f"{name} is a pipeline, not a function: it takes no --arg")
        return thing
    if not callable(thing):
        raise UsageError(f"{name} is {type(thing).__name__}, not a pipeline or a function of one")
    pipeline = called(thing, name, args)
    if not isinstance(pipeline, Pipeline):
        raise UsageError(f"{name} returned {type(pipeline).__name__}, not a Pipeline")
    return pipeline


def called(function: Callable[..., Any], name: str, args: Sequence[str]) -> Any:
    """Call a function with `name=value` arguments, each as its annotation wants it.

    Raises:
        UsageError: every wrong argument, at once; or the function failed.
    """
    try:
        known = signature_of(function).parameters
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name} does not tell its arguments: {reason_of(error)}") from error
    free = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    named = {
        key: parameter
        for key, parameter in known.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    problems: list[str] = []
    given: dict[str, Any] = {}
    for text in args:
        key, equals, value = text.partition("=")
        if not equals:
            problems.append(f"--arg {text}: write it as name=value")
        elif key not in named and not free:
            problems.append(unknown_name("argument", key, named, owner=name))
        else:
            try:
                annotation = named[key].annotation if key in named else inspect.Parameter.empty
                given[key] = parameters.convert(annotation, value, f"--arg {key}")
            except UsageError as error:
                problems.append(str(error))
    problems += [
        f"{name} needs --arg {key}=..."
        for key, parameter in named.items()
        if parameter.default is parameter.empty
        and not any(text.partition("=")[0] == key for text in args)
    ]
    _raise(problems)
    try:
        return function(**given)
    except StokerError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"{name} failed: {reason_of(error)}") from error


def _swapped(pipeline: Pipeline, text: str, sets: Sequence[str]) -> Pipeline:
    address, equals, name = text.partition("=")
    if not equals:
        raise UsageError(f"--swap {text}: write it as stage=other, as in decode=decode.jpeg")
    index = pipeline.find(address)
    old = pipeline.stages[index]
    cls = host().stage_class(name)
    known = parameters.parameters(cls)
    given = {field.name: getattr(old, field.name) for field in fields(old) if field.name in known}
    # What the new stage requires and the old one lacks may come from --set.
    for setting in sets:
        target, equals, value = setting.partition("=")
        place, _, key = target.rpartition(".")
        if equals and key in known and place in (address, name, cls.kind):
            given[key] = parameters.parse(cls, name, key, value)
    return pipeline.with_stage(index, parameters.build(cls, name, given))


def _set(pipeline: Pipeline, text: str) -> Pipeline:
    target, equals, value = text.partition("=")
    address, dot, key = target.rpartition(".")
    if not equals or not key:
        raise UsageError(
            f"--set {text}: write it as stage.parameter=value, as in collate.batch_size=32"
        )
    if not dot:
        options = parameters.parameters(Options)
        if key not in options:
            hint = "a stage's parameter is written as stage.parameter=value"
            raise UsageError(unknown_name("pipeline option", key, options, hint))
        parsed = parameters.parse(Options, "the pipeline", key, value)
        return pipeline.with_options(**{key: parsed})
    index = pipeline.find(address)
    old = pipeline.stages[index]
    parsed = parameters.parse(type(old), old.name, key, value)
    changed = parameters.made_by(partial(replace, old), old.name, {key: parsed})
    return pipeline.with_stage(index, changed)
