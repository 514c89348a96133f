"""Functions of people's own as a stage."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import PIL.Image
import torch

from stoker.errors import describe_given
from stoker.parameters import param
from stoker.rng import Rng
from stoker.sample import Sample, missing_field
from stoker.stages import Map, Surroundings, Worker

if TYPE_CHECKING:  # so that `check` judges the function, with a better message
    from collections.abc import Callable

_INDIRECT_MODES = {"1", "CMYK", "HSV", "LAB", "P", "PA", "YCbCr"}


@dataclass(frozen=True)
class Apply(Map):
    """Run a function of your own on each sample, or on one field of it.

    How it is called depends on `field`:

    - `"image"`: with that field's value; what it returns is the field's new value.
    - `("image", "mask")`: with those fields as keywords, as albumentations wants it;
      it returns a dict of new values.
    - None: with the whole sample, a dict; it returns the sample.

    A parameter of the function that is called `rng` gets the stage's `Rng`. Only what
    draws from there is reproducible: a function that draws from the global generators
    of `random`, NumPy or torch gives other values with other workers.
    """

    name: ClassVar[str] = "augment.apply"
    kind: ClassVar[str] = "augment"
    example: ClassVar[str] = 'augment.Apply(my_transform, field="image")'

    function: Callable[..., Any] = param(
        help="what is called; one of a module's own also runs in processes"
    )
    field: str | tuple[str, ...] | None = param(
        None, "field that it changes, or several as keywords; None: the whole sample"
    )
    copies: bool = param(
        True, "hand it copies of arrays, which it may change in place; False where it does not"
    )
    # What the family says by class, each of these stages says for itself. By keyword only,
    # since the family's `drops` stands before `function`, which has no default.
    drops: bool = dataclasses.field(  # type: ignore[misc]
        default=False,
        kw_only=True,
        metadata={"help": "it may return None, which drops the sample"},
    )
    deterministic: bool = dataclasses.field(  # type: ignore[misc]
        default=False,
        kw_only=True,
        metadata={"help": "it draws nothing, so that a cache may stand behind it"},
    )

    def __repr__(self) -> str:
        text = f"Apply(function={_name_of(self.function)}, field={self.field!r}, "
        text += f"copies={self.copies}, drops={self.drops}"
        return text + (", deterministic=True)" if self.deterministic else ")")

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield what is wrong with the function."""
        function: Any = self.function
        if not callable(function):
            yield (
                f"function={describe_given(function)} cannot be called; "
                "allowed is a function, or an object with __call__"
            )
        elif self.deterministic and _takes_rng(function):
            yield f"deterministic=True, but {_name_of(function)} takes an rng to draw from"

    @contextmanager
    def open(self, worker: Worker) -> Iterator[Callable[[Sample, Rng], Sample | None]]:
        """Look at the function's signature once; yield what calls it."""
        takes_rng = _takes_rng(self.function)
        yield functools.partial(self._call, takes_rng)

    def apply(self, sample: Sample, rng: Rng) -> Sample | None:
        """Return what the function makes of the sample.

        Raises:
            KeyError: a field is missing.
            TypeError: the function returned something of no use, such as a forgotten None.
        """
        return self._call(_takes_rng(self.function), sample, rng)

    def _call(self, takes_rng: bool, sample: Sample, rng: Rng) -> Sample | None:
        function = functools.partial(self.function, rng=rng) if takes_rng else self.function
        result: Any
        if self.field is None:
            result = function(self._own(sample))
        elif isinstance(self.field, str):
            result = function(self._own(_values(sample, (self.field,))[self.field]))
        else:
            result = function(**self._own(_values(sample, self.field)))
        if result is None and self.drops:
            return None
        if result is None or not (isinstance(self.field, str) or isinstance(result, dict)):
            raise self._useless(result)
        if isinstance(self.field, str):
            sample[self.field] = _dense(result)
            return sample
        changed = {name: _dense(value) for name, value in result.items()}
        if self.field is None:  # where it came from stays known, whatever the function leaves out
            return {name: sample[name] for name in sample if name.startswith("__")} | changed
        return sample | changed

    def _own(self, value: Any) -> Any:
        return _copy(value) if self.copies else value

    def _useless(self, result: Any) -> TypeError:
        wanted = "the field's new value" if isinstance(self.field, str) else "a dict of fields"
        hint = "drops=True lets None drop the sample, if that is meant"
        if result is not None:
            hint = 'field="NAME" hands it one field only, if that is meant'
        return TypeError(
            f"{_name_of(self.function)} returned {describe_given(result)}; "
            f"allowed is {wanted} ({hint})"
        )


def _values(sample: Sample, fields: Iterable[str]) -> dict[str, Any]:
    for field in fields:
        if field not in sample:
            raise missing_field(field, sample)
    return {field: sample[field] for field in fields}


def _name_of(function: Any) -> str:
    if isinstance(function, functools.partial):
        return f"partial({_name_of(function.func)}, ...)"
    named = function if hasattr(function, "__qualname__") else type(function)
    text = f"{getattr(named, '__module__', None) or ''}.{named.__qualname__}".lstrip(".")
    return text if named is function else f"{text}(...)"


def _takes_rng(function: Any) -> bool:
    if isinstance(function, functools.partial) and "rng" in function.keywords:
        return False  # it has one of its own
    try:
        known = inspect.signature(function).parameters
    except (TypeError, ValueError):  # some built-in functions tell no signature
        return False
    rng = known.get("rng")
    return rng is not None and rng.kind in (rng.POSITIONAL_OR_KEYWORD, rng.KEYWORD_ONLY)


def _copy(value: Any) -> Any:
    """Return a value that can be changed in place without touching the one given."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, torch.Tensor):
        return value.clone()
    if type(value) is dict:
        return {name: _copy(item) for name, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_copy, value))
    return value


def _dense(value: Any) -> Any:
    """Return a value as stages hand it on: pictures as arrays, arrays and tensors dense."""
    if isinstance(value, PIL.Image.Image):
        plain = value.convert("RGB") if value.mode in _INDIRECT_MODES else value
        pixels = np.asarray(plain)
        return pixels[:, :, None] if pixels.ndim == 2 else pixels  # (H, W, C)
    if isinstance(value, np.ndarray):
        return value if value.flags.c_contiguous else np.ascontiguousarray(value)
    if isinstance(value, torch.Tensor) and value.layout == torch.strided:
        return value.contiguous()
    return value
