"""Small fields from bytes to values, by extension."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from stoker.errors import UsageError, describe_given
from stoker.parameters import faults, param
from stoker.rng import Rng
from stoker.sample import Sample, missing_field
from stoker.stages import Executor, Map, Surroundings, Use, Worker

Decode = Callable[[bytes], Any]


def _array(data: bytes) -> Any:
    from numpy.lib import format as npy

    return npy.read_array(io.BytesIO(data), allow_pickle=False)


def _text(data: bytes) -> str:
    return data.decode("utf-8")


DECODERS: dict[str, Decode] = {
    "cls": int,
    "cls2": int,
    "index": int,
    "json": json.loads,
    "npy": _array,
    "txt": _text,
    "text": _text,
    "id": _text,
}
_PICKLED = {"pkl", "pickle", "pyd", "pt", "pth"}


@dataclass(frozen=True, init=False)
class Fields(Map):
    """Decodes fields by their extension, and names them: `Fields(label="cls", meta="json")`.

    `cls`, `cls2` and `index` become an int, `json` what it holds, `npy` an array, `txt`,
    `text` and `id` a str. Of a field with several extensions the last counts. The
    encoded fields are taken out of the sample; values that are no bytes pass unchanged.
    Pickled fields are refused, since loading them runs code.
    """

    name: ClassVar[str] = "decode.fields"
    kind: ClassVar[str] = "decode"
    companion: ClassVar[bool] = True
    deterministic: ClassVar[bool] = True
    example: ClassVar[str] = 'decode.Fields(label="cls", meta="json")'

    fields: tuple[tuple[str, str], ...] = param(
        (), "pairs of output field and encoded field; keyword arguments add to them"
    )

    def __init__(
        self,
        fields: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        *,
        num_workers: int | Literal["auto"] = "auto",
        executor: Executor = "auto",
        **named: str,
    ) -> None:
        """Name the outputs as keywords; `fields` serves for names that are no keywords.

        Raises:
            UsageError: `fields` is neither a mapping nor pairs.
        """
        values = {
            "num_workers": num_workers,
            "executor": executor,
            "fields": _pairs(fields, named),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        names = [f"{output}={source!r}" for output, source in self.fields]
        names += [
            f"{name}={getattr(self, name)!r}"
            for name in ("num_workers", "executor")
            if getattr(self, name) != "auto"
        ]
        return f"Fields({', '.join(names)})"

    def check(self, around: Surroundings) -> Iterable[str]:
        """Yield the fields that cannot be decoded."""
        if any(faults(self)):
            return
        if not self.fields:
            yield f"no field is named; write for instance {self.example}"
        outputs = [output for output, _ in self.fields]
        for output in sorted({name for name in outputs if outputs.count(name) > 1}):
            yield f"output {output!r} is named twice"
        for output, source in self.fields:
            if output.startswith("__") or not output:
                yield f"{output}={source!r}: outputs must have a name that is no metadata"
            if _extension(source) not in DECODERS:
                yield f"{output}={source!r}: {_refusal(_extension(source))}"

    def use_of(self, field: str) -> Use:
        """Return that pictures are none of its business, unless it is told to make one."""
        named = {name for pair in self.fields for name in pair}
        return "whole" if field in named else "none"

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        """Return the sample with its fields decoded."""
        with self.open(Worker()) as apply:
            return apply(sample, rng)

    @contextmanager
    def open(self, worker: Worker) -> Iterator[Callable[[Sample, Rng], Sample]]:
        """Yield what decodes, its decoders looked up once."""
        plan = [(output, source, DECODERS[_extension(source)]) for output, source in self.fields]
        sources = {source for _, source, _ in plan}

        def apply(sample: Sample, rng: Rng) -> Sample:
            values = {output: _decoded(sample, source, decode) for output, source, decode in plan}
            for source in sources:
                del sample[source]
            sample.update(values)
            return sample

        yield apply


def _decoded(sample: Sample, source: str, decode: Decode) -> Any:
    if source not in sample:
        raise missing_field(source, sample)
    value = sample[source]
    if not isinstance(value, (bytes, bytearray, memoryview)):
        return value
    try:
        return decode(bytes(value))
    except (ValueError, EOFError) as error:
        shown = describe_given(bytes(value[:64]))
        raise ValueError(f"field {source!r} begins with {shown}: {error}") from error


def _extension(source: str) -> str:
    return source.rpartition(".")[2]


def _refusal(extension: str) -> str:
    allowed = ", ".join(DECODERS)
    if extension.lower() in DECODERS:
        return f"fields are lower case, so write {extension.lower()!r}"
    if extension in _PICKLED:
        return (
            f"pickled fields (.{extension}) run code when they are loaded and are refused; write "
            f".json or .npy (allowed: {allowed})"
        )
    return f"no decoder for .{extension}; allowed: {allowed}; pictures are for decode.Image"


def _pairs(given: Any, named: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return what was given as pairs, whichever way, so that equal stages are equal."""
    items = given.items() if isinstance(given, Mapping) else given
    try:
        return (*((output, source) for output, source in items), *named.items())
    except (TypeError, ValueError):
        raise UsageError(
            f"decode.fields: fields={describe_given(given)}: allowed are pairs of output and "
            "encoded field, as in (('label', 'cls'),)"
        ) from None
