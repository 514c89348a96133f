"""Parameters of stages and policies: checked, parsed from text, described.

Types come from the dataclass annotations and are judged by pydantic; bounds and
units from `param`. All problems of a thing are reported together.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import sys
import typing
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from stoker.errors import StokerError, UsageError, describe_given, reason_of, unknown_name
from stoker.typed import adapter_of, no_flag_as_number, resolved, type_name, used_as_it_is


def param(
    default: Any = dataclasses.MISSING,
    help: str = "",  # noqa: A002 - the word that every command line uses
    *,
    unit: str = "",
    minimum: float | None = None,
    maximum: float | None = None,
) -> Any:
    """Declare a parameter: a dataclass field with its meaning, unit and bounds.

    `minimum` and `maximum` are inclusive and checked before anything starts,
    together with the annotated type. Without a default the parameter is required.
    """
    facts = {"help": help, "unit": unit, "minimum": minimum, "maximum": maximum}
    return dataclasses.field(default=default, metadata=facts)


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One parameter, as a listing shows it."""

    name: str
    type: str
    default: Any
    required: bool
    unit: str = ""
    help: str = ""
    minimum: float | None = None
    maximum: float | None = None

    @property
    def allowed(self) -> str:
        """What it accepts, in words: type, bounds and unit."""
        low, high = self.minimum, self.maximum
        if low is not None and high is not None:
            bounds = f" from {low:g} to {high:g}"
        elif low is not None:
            bounds = f" of at least {low:g}"
        else:
            bounds = f" of at most {high:g}" if high is not None else ""
        many = ", numbers" if bounds and not self.type.isidentifier() else ""
        return f"{self.type}{many}{bounds}{f' ({self.unit})' if self.unit else ''}"


def parameters(cls: type) -> dict[str, Parameter]:
    """Return the parameters of a stage or policy class, by name, in the order of its call."""
    found = {}
    # A call takes keyword-only ones last, wherever their class stands among the bases.
    for field in sorted(dataclasses.fields(cls), key=lambda field: bool(field.kw_only)):
        if not field.init or field.metadata.get("internal"):
            continue
        facts = field.metadata
        kind = type_name(_annotations(cls).get(field.name, field.type))
        required = (
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        )
        default = None if field.default is dataclasses.MISSING else field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        found[field.name] = Parameter(
            field.name,
            kind,
            default,
            required,
            facts.get("unit", ""),
            facts.get("help", ""),
            facts.get("minimum"),
            facts.get("maximum"),
        )
    return found


@cache
def _annotations(cls: type) -> dict[str, Any]:
    """Return the annotations that can be resolved; types imported for checkers only cannot."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        scope = vars(sys.modules[base.__module__]) if base.__module__ in sys.modules else {}
        for name, annotation in vars(base).get("__annotations__", {}).items():
            found[name] = resolved(annotation, scope, vars(base))
    return {
        name: annotation
        for name, annotation in found.items()
        if not isinstance(annotation, str) and typing.get_origin(annotation) is not typing.ClassVar
    }


@cache
def _adapters(cls: type) -> dict[str, Any]:
    """Return pydantic validators by parameter, for the annotations that it understands."""
    made = {name: adapter_of(annotation) for name, annotation in _annotations(cls).items()}
    return {name: adapter for name, adapter in made.items() if adapter is not None}


def _judged(cls: type, name: str, value: Any, *, from_text: bool) -> tuple[Any, str | None]:
    """Return the value as its type wants it, and what is wrong with it (or None)."""
    from pydantic import ValidationError

    parameter = parameters(cls)[name]
    adapter = _adapters(cls).get(name)
    made, fits = value, True
    if adapter is not None:
        try:
            made = adapter.validate_python(value)
        except ValidationError:
            fits = False
        else:
            fits = no_flag_as_number(value, made) if from_text else used_as_it_is(value, made)
    if fits and not any(_out_of_bounds(parameter, part) for part in _numbers_of(parameter, made)):
        return made, None
    return value, f"{name}={describe_given(value)}: allowed is {parameter.allowed}"


def _numbers_of(parameter: Parameter, value: Any) -> Iterator[float]:
    """Yield what bounds apply to: the number, or those in a tuple or list of a bounded one."""
    bounded = parameter.minimum is not None or parameter.maximum is not None
    if isinstance(value, (list, tuple)):
        for part in value if bounded else ():
            yield from _numbers_of(parameter, part)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value


def _out_of_bounds(parameter: Parameter, number: float) -> bool:
    low, high = parameter.minimum, parameter.maximum
    below = low is not None and number < low
    above = high is not None and number > high
    return below or above or number != number


def faults(thing: Any) -> Iterator[str]:
    """Yield what is wrong with the parameters of a stage or policy, one line each."""
    cls = type(thing)
    for base in cls.__mro__:
        # A plain class among the bases declares no parameters; a stage's subclass means to.
        if dataclasses.is_dataclass(base) and "__dataclass_params__" not in vars(base):
            declared = vars(base).get("__annotations__", {}).items()
            fields = [name for name, annotation in declared if "ClassVar" not in str(annotation)]
            if fields:
                yield (
                    f"{base.__name__} declares {', '.join(fields)} but is no dataclass: "
                    "decorate it with @dataclass(frozen=True)"
                )
                return
    for name in parameters(cls):
        _, fault = _judged(cls, name, getattr(thing, name), from_text=False)
        if fault:
            yield fault


def literal(text: str) -> Any:
    """Return the Python literal that `text` is, else the text: `3`, `0.5`, `(1, 2)`, `true`."""
    lowered = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in lowered:
        return lowered[text.lower()]
    try:
        with warnings.catch_warnings(action="ignore"):  # such as of a backslash in a pattern
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def parse(cls: type, owner: str, name: str, text: str) -> Any:
    """Return the value of parameter `name` that the user wrote as `text`.

    Raises:
        UsageError: no such parameter, or not a value that it allows.
    """
    known = parameters(cls)
    if name not in known:
        raise UsageError(unknown_name("parameter", name, known, owner=owner))
    value, fault = _judged(cls, name, literal(text), from_text=True)
    if fault:
        # "17" may be meant as text where the parameter is text.
        value, fault_of_text = _judged(cls, name, text, from_text=True)
        if fault_of_text:
            raise UsageError(f"{owner}: {fault}")
    return value


def convert(annotation: Any, text: str, what: str) -> Any:
    """Return the value of a type that the user wrote as `text`.

    Raises:
        UsageError: not a value of that type.
    """
    from pydantic import ValidationError

    adapter = None
    if annotation is not inspect.Parameter.empty and not isinstance(annotation, str):
        adapter = adapter_of(annotation)
    if adapter is None:
        return literal(text)
    for candidate in (literal(text), text):
        try:
            made = adapter.validate_python(candidate)
        except ValidationError:
            continue
        if no_flag_as_number(candidate, made):
            return made
    raise UsageError(f"{what}={describe_given(text)}: allowed is {type_name(annotation)}")


def build(cls: type, owner: str, given: Mapping[str, Any]) -> Any:
    """Make a stage or policy from parameters by name.

    Raises:
        UsageError: all wrong names and missing parameters, at once.
    """
    known = parameters(cls)
    problems = [
        unknown_name("parameter", name, known, owner=owner) for name in given if name not in known
    ]
    problems += [
        f"{owner} needs {name} ({parameter.allowed})"
        for name, parameter in known.items()
        if parameter.required and name not in given
    ]
    if problems:
        raise UsageError("; ".join(problems))
    return made_by(cls, owner, given)


def made_by(make: Callable[..., Any], owner: str, given: Mapping[str, Any]) -> Any:
    """Return `make(**given)`; what a stage's own checks raise is wrong use, too.

    Raises:
        UsageError: it refused.
    """
    try:
        return make(**given)
    except StokerError:
        raise
    except Exception as error:
        raise UsageError(f"{owner}: {reason_of(error)}") from error


def shown(thing: Any) -> str:
    """Return a stage or policy as its call, with the parameters that differ from defaults."""
    parts = []
    for name, parameter in parameters(type(thing)).items():
        value = getattr(thing, name)
        if parameter.required or not _equal(value, parameter.default):
            parts.append(f"{name}={_given(value)}")
    return f"{type(thing).name or type(thing).__name__}({', '.join(parts)})"


def _given(value: Any) -> str:
    """Return a value as `shown` gives it: stages inside a stage as calls, whole."""
    if _is_stage(value):
        return shown(value)
    if isinstance(value, (list, tuple)) and value and all(map(_is_stage, value)):
        return f"[{', '.join(map(shown, value))}]"
    return describe_given(value)


def _is_stage(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and bool(getattr(type(value), "kind", ""))


def _equal(value: Any, other: Any) -> bool:
    if value is other:
        return True
    try:
        return bool(value == other)
    except Exception:  # arrays compare element by element, and say nothing as a whole
        return False
