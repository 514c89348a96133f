"""Errors on their way out of a child: by name, message and traceback, whatever they are.

The exception itself comes along only where it survives being pickled: constructors
that need two arguments or keywords, or that hold what cannot be pickled, must not
hide what happened.
"""

from __future__ import annotations

import pickle
import traceback
from typing import NamedTuple

from stoker.errors import RunError, SampleError, StokerError, reason_of

# An exception may hold a whole array; its words are enough then.
MAX_PICKLED_BYTES = 64 << 10


class WorkerError(Exception):
    """Where an error was raised in a worker's process: its traceback, as text."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


class Fault(NamedTuple):
    """An error as it crosses."""

    message: str
    """Of an error that is no sample's, else the reason."""
    trace: str
    pickled: bytes | None
    """The original exception, where it can be had."""
    stage: str | None = None
    """Where a sample failed; None for other errors."""
    key: str | None = None
    shard: str | None = None
    offset: int | None = None

    @classmethod
    def of(cls, error: BaseException) -> Fault:
        """Describe an error, in the process that raised it."""
        if not isinstance(error, SampleError):
            words = str(error) if isinstance(error, StokerError) else reason_of(error)
            return cls(words, _text(error), None)
        cause = error.__cause__
        return cls(
            error.reason,
            _text(cause or error),
            _pickled(cause),
            error.stage,
            error.key,
            error.shard,
            error.offset,
        )

    def error(self) -> RunError:
        """Make the error anew, with the worker's traceback as a cause."""
        there = WorkerError(self.trace)
        made: RunError
        if self.stage is None:
            made = RunError(self.message)
        else:
            made = SampleError(
                self.stage, self.message, key=self.key, shard=self.shard, offset=self.offset
            )
        made.__cause__ = there
        if self.pickled is not None:
            original = _unpickled(self.pickled)
            if original is not None:
                original.__cause__ = there
                made.__cause__ = original
        return made


def _text(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def _pickled(error: BaseException | None) -> bytes | None:
    """Return the pickle of an error, or None where it would not come out as it went in."""
    if error is None:
        return None
    try:
        data = pickle.dumps(error)
        if len(data) > MAX_PICKLED_BYTES or type(pickle.loads(data)) is not type(error):
            return None
    except Exception:  # whatever a constructor or a reducer raises
        return None
    return data


def _unpickled(data: bytes) -> BaseException | None:
    try:
        made = pickle.loads(data)
    except Exception:  # such as a module that only the worker can import
        return None
    return made if isinstance(made, BaseException) else None
