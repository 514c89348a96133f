"""From what a person types to a pipeline: its name, arguments, swapped stages, settings."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from stoker import parameters
from stoker.errors import StokerError, UsageError, unknown_name
from stoker.pipeline import Options, Pipeline
from stoker.pipeline import stage as make_stage
from stoker.plugins import host


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
    for change, texts in ((_swapped, changes.swaps), (_set, changes.sets)):
        for text in texts:
            try:
                pipeline = change(pipeline, text)
            except UsageError as error:
                problems.append(str(error))
    if problems:
        raise UsageError("\n".join(problems))
    given = {key: value for key, value in changes.options.items() if value is not None}
    return pipeline.with_options(**given) if given else pipeline


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
        raise UsageError(f"{name}: say which function: {_choices(place, module)}")
    if not hasattr(module, attribute):
        known = [key for key in vars(module) if not key.startswith("_")]
        raise UsageError(unknown_name(f"function in {place}", attribute, known))
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
    other = getattr(known, "__file__", None)
    if known is not None and (other is None or Path(other).resolve() != path.resolve()):
        raise UsageError(
            f"{place}: another module is named {path.stem!r} ({other}); rename the file"
        )
    return _imported(path.stem, place)


def _imported(module: str, place: str) -> Any:
    try:
        return importlib.import_module(module)
    except Exception as error:
        line = ""
        if isinstance(error, SyntaxError) and error.lineno:
            line = f" (line {error.lineno})"
        raise UsageError(
            f"{place} could not be imported: {type(error).__name__}: {error}{line}"
        ) from error


def _choices(place: str, module: Any) -> str:
    own = [
        f"{place}:{key}"
        for key, value in vars(module).items()
        if not key.startswith("_")
        and (isinstance(value, Pipeline) or getattr(value, "__module__", "") == module.__name__)
        and (callable(value) or isinstance(value, Pipeline))
    ]
    return ", ".join(own) or f"{place}:NAME"


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
    signature = inspect.signature(function, eval_str=True)
    problems: list[str] = []
    given: dict[str, Any] = {}
    for text in args:
        key, equals, value = text.partition("=")
        if not equals:
            problems.append(f"--arg {text}: write it as name=value")
        elif key not in signature.parameters:
            problems.append(unknown_name(f"argument of {name}", key, signature.parameters))
        else:
            try:
                annotation = signature.parameters[key].annotation
                given[key] = parameters.convert(annotation, value, f"--arg {key}")
            except UsageError as error:
                problems.append(str(error))
    problems += [
        f"{name} needs --arg {key}=..."
        for key, parameter in signature.parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and key not in given
        and not any(text.startswith(f"{key}=") for text in args)
    ]
    if problems:
        raise UsageError("\n".join(problems))
    try:
        return function(**given)
    except StokerError:
        raise
    except Exception as error:
        raise UsageError(f"{name} failed: {type(error).__name__}: {error}") from error


def _swapped(pipeline: Pipeline, text: str) -> Pipeline:
    address, equals, name = text.partition("=")
    if not equals:
        raise UsageError(f"--swap {text}: write it as stage=other, as in decode=decode.jpeg")
    index = pipeline.find(address)
    old = pipeline.stages[index]
    cls = host().stage_class(name)
    kept = {field.name for field in fields(old) if field.init} & set(parameters.parameters(cls))
    return pipeline.with_stage(
        index, make_stage(name, **{key: getattr(old, key) for key in sorted(kept)})
    )


def _set(pipeline: Pipeline, text: str) -> Pipeline:
    target, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--set {text}: write it as stage.parameter=value")
    address, dot, key = target.rpartition(".")
    if not dot:
        options = parameters.parameters(Options)
        if key in options:
            parsed = parameters.parse(Options, "the pipeline", key, value)
            return pipeline.with_options(**{key: parsed})
        raise UsageError(
            f"--set {text}: write it as stage.parameter=value, as in collate.batch_size=32"
        )
    index = pipeline.find(address)
    old = pipeline.stages[index]
    parsed = parameters.parse(type(old), old.name, key, value)
    return pipeline.with_stage(index, replace(old, **{key: parsed}))
