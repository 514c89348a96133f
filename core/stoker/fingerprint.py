"""A digest of what makes samples: source, data, stages and their code."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from stoker.errors import UsageError
from stoker.parameters import parameters
from stoker.stages import Source, Stage

# How a stage is run, not what it does.
_FREE = {"num_workers", "executor"}
# A new version of these may decode or resize to other values.
_LIBRARIES = ("stoker", "numpy", "pillow", "simplejpeg", "torch")


def fingerprint(stages: Sequence[Stage], samples: int | None) -> str:
    """Return 32 hexadecimal digits that change with anything that may change the samples.

    That is the source's data (`Source.content`), the parameters of all stages, the code of
    the modules that define their classes and functions, and the versions of the libraries.

    Args:
        stages: a source and the stages behind it.
        samples: that the source counts in an epoch.

    Raises:
        UsageError: a parameter whose value cannot be told apart from another.
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in _parts(stages, samples):
        digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()


def _parts(stages: Sequence[Stage], samples: int | None) -> Iterator[str]:
    for package in _LIBRARIES:
        try:
            yield f"{package} {metadata.version(package)}"
        except metadata.PackageNotFoundError:
            yield f"{package} -"
    yield f"{samples} samples"
    for stage in stages:
        yield from _stage(stage)


def _stage(stage: Stage) -> Iterator[str]:
    cls = type(stage)
    yield f"{cls.__module__}.{cls.__qualname__}"
    for base in cls.__mro__:
        if base is not object:
            yield _code_of_module(base.__module__)
    for name in parameters(cls):
        if name not in _FREE:
            yield f"{name}="
            yield from _value(getattr(stage, name), f"{stage.name}.{name}")
    if isinstance(stage, Source):
        yield stage.content()


def _value(value: Any, where: str) -> Iterator[str]:
    """Yield what tells a parameter's value from others."""
    if isinstance(value, Stage):
        yield from _stage(value)
    elif value is None or isinstance(value, (str, int, float, complex, bool, bytes, Path)):
        yield f"{type(value).__name__} {value!r}"
    elif isinstance(value, Mapping):
        yield f"{len(value)} pairs"
        for key, item in value.items():
            yield from _value(key, where)
            yield from _value(item, where)
    elif isinstance(value, (list, tuple, range)):
        yield f"{type(value).__name__} of {len(value)}"
        for item in value:
            yield from _value(item, where)
    elif isinstance(value, (set, frozenset)):
        yield from _value(sorted(value, key=repr), where)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield type(value).__qualname__
        for field in dataclasses.fields(value):
            yield from _value(getattr(value, field.name), where)
    elif hasattr(value, "tobytes") and hasattr(value, "dtype"):
        yield f"{value.dtype} {value.shape} {hashlib.blake2b(value.tobytes()).hexdigest()}"
    else:
        yield from _callable(value, where)


def _callable(value: Any, where: str) -> Iterator[str]:
    if isinstance(value, functools.partial):
        yield "partial"
        yield from _value(value.func, where)
        yield from _value(value.args, where)
        yield from _value(value.keywords, where)
    elif isinstance(value, type) or inspect.isroutine(value):
        yield f"{getattr(value, '__module__', '')}.{value.__qualname__}"
        yield _code_of(value)
        closure: Any = getattr(value, "__closure__", None) or ()
        for cell in closure:
            yield from _value(cell.cell_contents, where)
        owner = getattr(value, "__self__", None)
        if owner is not None and not inspect.ismodule(owner):
            yield from _value(owner, where)
    elif hasattr(value, "__dict__") or hasattr(value, "__len__"):
        yield f"{type(value).__module__}.{type(value).__qualname__}"
        yield _code_of_module(type(value).__module__)
        # A dataset, say: its attributes tell, as far as they are plain.
        yield from _value(
            dict(sorted(vars(value).items())) if hasattr(value, "__dict__") else 0, where
        )
    else:
        raise UsageError(
            f"{where} is {type(value).__name__}, which cannot be told from another one: what it "
            "feeds cannot be kept from one run to the next"
        )


def _code_of(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    if code is None:
        return _code_of_module(getattr(function, "__module__", "") or "")
    names = [item for item in code.co_consts if not inspect.iscode(item)]
    inner = [item.co_code.hex() for item in code.co_consts if inspect.iscode(item)]
    return f"{code.co_code.hex()} {names} {code.co_names} {inner}"


@functools.cache
def _code_of_module(name: str) -> str:
    """Return a digest of a module's file, "" where it has none."""
    file = getattr(sys.modules.get(name), "__file__", None)
    try:
        return hashlib.blake2b(Path(file).read_bytes()).hexdigest() if file else ""
    except OSError:
        return ""
