"""What cannot go into a process, found before any is started."""

from __future__ import annotations

import dataclasses
import functools
import io
import pickle
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stoker.engine.process.preparing import main_module, names_main, refuse_in_worker
from stoker.errors import reason_of
from stoker.stages import Mix, PooledStage, Stage, StreamSource

_DEPTH = 4
_REMEDY = "use executor='thread'"


def refusals(stages: Sequence[Stage], names: Sequence[str]) -> Iterator[str]:
    """Yield why stages that ask for a process cannot have one.

    Raises:
        UsageError: this is a worker's process, which starts none of its own.
    """
    needed: dict[int, None] = {}
    for index, (name, stage) in enumerate(zip(names, stages, strict=True)):
        if not isinstance(stage, PooledStage) or stage.executor != "process":
            continue
        refuse_in_worker()
        if isinstance(stage, StreamSource):
            yield (
                f"{name}: executor='process': a stream is read in order by one reader, which "
                f"lives in this process; {_REMEDY}, or an indexed source"
            )
        elif stage.resource == "device" or stage.kind in ("pin", "copy"):
            yield (
                f"{name}: executor='process': it works on this process's device memory; leave "
                "executor='auto'"
            )
        else:
            needed[index] = None
            if isinstance(stage, Mix):  # its workers run what comes before it, too
                needed |= dict.fromkeys(range(index))
    for index in sorted(needed):
        fault = _fault(stages[index])
        if fault is not None:
            yield _located(names[index], stages[index], fault)


def _located(name: str, stage: Stage, fault: str) -> str:
    path, what = _deepest(stage, "", fault, _DEPTH)
    subject = f"{name}: {path.lstrip('.')} {what}" if path else f"{name}: its class {what}"
    cure = "a function of a module" if "function" in what or "lambda" in what else ""
    cure = cure or ("a class of a module" if not path else "something that can be pickled")
    return f"{subject}, which another process cannot be given; {_REMEDY}, or {cure}"


def _fault(value: Any) -> str | None:
    """Return why a child could not be given a value, None where it could."""
    try:
        data = pickle.dumps(value, 5)
    except Exception as error:  # whatever a reducer raises
        return _words(value, error)
    if names_main(data) and not main_module()[0]:
        return "is defined in an interactive session"
    return None


def _deepest(value: Any, path: str, fault: str, depth: int) -> tuple[str, str]:
    """Return the innermost part that is at fault, and its fault."""
    if depth:
        for step, part in _parts(value):
            found = _fault(part)
            if found is not None:
                return _deepest(part, path + step, found, depth - 1)
    return path, fault


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Stage) or (
        dataclasses.is_dataclass(value) and not isinstance(value, type)
    ):
        for field in dataclasses.fields(value):
            yield f".{field.name}", getattr(value, field.name, None)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield f"[{key!r}]", part
    elif isinstance(value, (list, tuple)):
        for index, part in enumerate(value):
            yield f"[{index}]", part
    elif isinstance(value, functools.partial):
        yield ".func", value.func
        yield from ((f".args[{index}]", part) for index, part in enumerate(value.args))
        yield from ((f".keywords[{key!r}]", part) for key, part in value.keywords.items())
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
    elif not isinstance(value, (type, types.FunctionType)):
        yield from ((f".{key}", part) for key, part in getattr(value, "__dict__", {}).items())


def _words(value: Any, error: Exception) -> str:
    """Say what a value is that cannot be pickled."""
    if isinstance(value, types.FunctionType):
        if value.__name__ == "<lambda>":
            return "is a lambda"
        if "<locals>" in value.__qualname__:
            what = "closure" if value.__closure__ else "function inside a function"
            return f"is a {what} ({value.__qualname__})"
    if isinstance(value, io.IOBase):
        return "is an open file"
    kind = value if isinstance(value, type) else type(value)
    if "<locals>" in kind.__qualname__:
        return f"is {kind.__qualname__}, defined inside a function"
    if kind.__module__ == "_thread" or kind.__module__ == "threading":
        return f"is a {kind.__name__}"
    return f"is a {kind.__name__} ({reason_of(error)})"
