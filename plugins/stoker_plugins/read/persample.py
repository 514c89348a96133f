"""One value for each sample of a source: listed, kept in a .npy file, or a function's."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy

from stoker.errors import UsageError, describe_given, reason_of
from stoker.sample import Address, plain


def by_place(given: Any) -> bool:
    """Say whether values belong to the samples by their place in the source's order."""
    return not callable(given)


def values_of(given: Any, addresses: Sequence[Address], what: str) -> Any:
    """Return the values of the samples, in the order of their addresses: a sequence.

    Args:
        given: a sequence, an array, a .npy file's path, or a function of the address.
        addresses: of the samples.
        what: the parameter's name, for errors.

    Raises:
        UsageError: they are not one a sample, or cannot be had.
    """
    if callable(given):
        return _called(given, addresses, what)
    values = _loaded(given, what) if isinstance(given, (str, Path)) else given
    shape = getattr(values, "shape", None)
    if shape is not None and len(shape) != 1:
        raise UsageError(f"{what} has shape {tuple(shape)}: allowed is one value a sample")
    try:
        count = len(values)
    except TypeError:
        raise UsageError(
            f"{what}={describe_given(given)}: allowed are a list or an array, one value a sample, "
            "the path of a .npy file, or a function of the address"
        ) from None
    if count != len(addresses):
        raise UsageError(
            f"{what} has {count:,} values and the source {len(addresses):,} samples; give one "
            "value a sample, in the source's order"
        )
    return values


def mark(given: Any) -> str:
    """Return a text that changes when the file does that values are kept in; "" without one."""
    if not isinstance(given, (str, Path)):
        return ""
    try:
        with open(given, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return f"none: {error.strerror}"


def _called(
    function: Callable[[Address], Any], addresses: Sequence[Address], what: str
) -> list[Any]:
    values = []
    for address in addresses:
        try:
            values.append(function(plain(address)))
        except Exception as error:  # other people's code
            raise UsageError(
                f"{what}: the function failed at address {describe_given(plain(address))}: "
                f"{reason_of(error)}"
            ) from error
    return values


def _loaded(path: str | Path, what: str) -> Any:
    given = f"{what}={describe_given(os.fspath(path))}"
    try:
        # A mapping: the file may be larger than what is drawn from it at a time.
        loaded = numpy.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{given} cannot be loaded: {reason_of(error)}; give a .npy file"
        ) from None
    if not isinstance(loaded, numpy.ndarray):
        raise UsageError(f"{given} holds several arrays; give a .npy file with one")
    return loaded
