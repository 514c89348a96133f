"""Parameters of stages and policies: checked, parsed from text, described.

Types come from the dataclass annotations and are judged by pydantic; bounds and
units from `param`. All problems of a thing are reported together.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import inspect
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from stoker.errors import UsageError, describe_given, unknown_name


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
        return f"{self.type}{bounds}{f' ({self.unit})' if self.unit else ''}"


def parameters(cls: type) -> dict[str, Parameter]:
    """Return the parameters of a stage or policy class, by name, in order."""
    found = {}
    for field in dataclasses.fields(cls):
        if not field.init:
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
        scope = vars(sys.modules[base.__module__])
        for name, annotation in vars(base).get("__annotations__", {}).items():
            try:
                if isinstance(annotation, str):
                    annotation = eval(annotation, dict(scope), dict(vars(base)))
            except NameError:
                continue
            if typing.get_origin(annotation) is not typing.ClassVar:
                found[name] = annotation
    return found


@cache
def _adapters(cls: type) -> dict[str, Any]:
    """Return pydantic validators by parameter, for the annotations that it understands."""
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter

    found = {}
    config = ConfigDict(arbitrary_types_allowed=True)
    for name, annotation in _annotations(cls).items():
        try:
            found[name] = TypeAdapter(annotation, config=config)
        except PydanticUserError:  # dataclasses and models bring their own configuration
            with contextlib.suppress(PydanticUserError):
                found[name] = TypeAdapter(annotation)
    return found


def _fault(cls: type, name: str, value: Any, strict: bool) -> tuple[Any, str | None]:
    """Return the value as its type wants it, and what is wrong with it (or None)."""
    from pydantic import ValidationError

    parameter = parameters(cls)[name]
    adapter = _adapters(cls).get(name)
    if adapter is not None:
        try:
            value = adapter.validate_python(value, strict=strict or None)
        except ValidationError:
            return value, f"{name}={describe_given(value)}: allowed is {parameter.allowed}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        low, high = parameter.minimum, parameter.maximum
        below = low is not None and value < low
        above = high is not None and value > high
        if below or above or value != value:
            return value, f"{name}={describe_given(value)}: allowed is {parameter.allowed}"
    return value, None


def faults(thing: Any) -> Iterator[str]:
    """Yield what is wrong with the parameters of a stage or policy, one line each."""
    cls = type(thing)
    for base in cls.__mro__:
        if "__annotations__" in vars(base) and "__dataclass_params__" not in vars(base):
            fields = [n for n, a in vars(base)["__annotations__"].items() if "ClassVar" not in a]
            if fields:
                yield (
                    f"{base.__name__} declares {', '.join(fields)} but is no dataclass: "
                    "decorate it with @dataclass(frozen=True)"
                )
                return
    for name in parameters(cls):
        value = getattr(thing, name)
        # Tuples and lists serve alike; for the rest a wrong type is a mistake.
        _, fault = _fault(cls, name, value, strict=isinstance(value, (str, bool)))
        if fault:
            yield fault


def literal(text: str) -> Any:
    """Return the Python literal that `text` is, else the text: `3`, `0.5`, `(1, 2)`, `true`."""
    lowered = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in lowered:
        return lowered[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def parse(cls: type, owner: str, name: str, text: str) -> Any:
    """Return the value of parameter `name` that the user wrote as `text`.

    Raises:
        UsageError: no such parameter, or not a value that it allows.
    """
    known = parameters(cls)
    if name not in known:
        raise UsageError(unknown_name(f"parameter of {owner}", name, known))
    value, fault = _fault(cls, name, literal(text), strict=False)
    if fault:
        # "17" may be meant as text where the parameter is text.
        value, fault_of_text = _fault(cls, name, text, strict=False)
        if fault_of_text:
            raise UsageError(f"{owner}: {fault}")
    return value


def convert(annotation: Any, text: str, what: str) -> Any:
    """Return the value of a type that the user wrote as `text`.

    Raises:
        UsageError: not a value of that type.
    """
    from pydantic import ConfigDict, TypeAdapter, ValidationError

    if annotation is inspect.Parameter.empty:
        return literal(text)
    adapter: Any = TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True))
    for candidate in (literal(text), text):
        try:
            return adapter.validate_python(candidate)
        except ValidationError:
            continue
    raise UsageError(f"{what}={describe_given(text)}: allowed is {type_name(annotation)}")


def type_name(annotation: Any) -> str:
    """Return a type as people write it."""
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return annotation.__name__
    return str(annotation).replace("typing.", "").replace("NoneType", "None")


def build(cls: type, owner: str, given: Mapping[str, Any]) -> Any:
    """Make a stage or policy from parameters by name.

    Raises:
        UsageError: all wrong names and missing parameters, at once.
    """
    known = parameters(cls)
    problems = [
        unknown_name(f"parameter of {owner}", name, known) for name in given if name not in known
    ]
    problems += [
        f"{owner} needs {name} ({parameter.allowed})"
        for name, parameter in known.items()
        if parameter.required and name not in given
    ]
    if problems:
        raise UsageError("; ".join(problems))
    make: Callable[..., Any] = cls
    return make(**given)


def shown(thing: Any) -> str:
    """Return a stage or policy as its call, with the parameters that differ from defaults."""
    parts = []
    for name, parameter in parameters(type(thing)).items():
        value = getattr(thing, name)
        if parameter.required or (value is not parameter.default and value != parameter.default):
            parts.append(f"{name}={describe_given(value)}")
    return f"{type(thing).name or type(thing).__name__}({', '.join(parts)})"
