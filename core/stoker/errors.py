"""Every error that Stoker raises on purpose, in one tree.

```
StokerError                 exit code
├── UsageError              2  wrong names, values, paths: nothing was started
│   ├── UnknownNameError    2  a name nobody registered, with the nearest right one
│   ├── PlanError           2  all that is wrong with a pipeline, at once
│   └── PluginConflictError 2  two plugins claim one name
├── RunError                1  the run started and failed
│   ├── SampleError         1  an error inside a stage, with stage, key, shard, offset
│   ├── QuarantineError     1  more samples failed than the budget allows
│   ├── LedgerError         1  samples unaccounted for
│   ├── PrecisionError      1  the precision asked for is not the one in effect
│   ├── CheckpointError     1  a checkpoint that is damaged, incomplete or does not fit
│   └── CloseError          1  something did not come back in time on close
├── VerdictError            3  a verdict that fails its brief
└── StaleError              4  a stale operating configuration
```

A message says what was given, what is allowed and what to do.
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any


class StokerError(Exception):
    """Root of the tree. `exit_code` is what the command line ends with."""

    exit_code = 1

    def __reduce__(self) -> tuple[Any, ...]:
        # Made anew from its message: an error travels out of the process that raised it.
        return _restored, (type(self), self.args), self.__dict__


def _restored(cls: type[StokerError], args: tuple[Any, ...]) -> StokerError:
    return cls.__new__(cls, *args)


class UsageError(StokerError):
    """Wrong use: a name, value or path that does not exist. Nothing was started."""

    exit_code = 2


class UnknownNameError(UsageError):
    """A name that nobody registered."""

    def __init__(self, what: str, given: str, known: Iterable[str], hint: str = "") -> None:
        self.given = given
        super().__init__(unknown_name(what, given, known, hint))


class PlanError(UsageError):
    """All that is wrong with a pipeline, reported at once, before anything starts."""

    def __init__(self, pipeline: str, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        lines = "\n".join(f"  - {problem}" for problem in problems)
        super().__init__(f"pipeline {pipeline!r} has {count}:\n{lines}")


class PluginConflictError(UsageError):
    """Two plugins claim one name."""


class RunError(StokerError):
    """The run started and failed."""


class SampleError(RunError):
    """An error inside a stage. The original exception is `__cause__`."""

    def __init__(
        self,
        stage: str,
        cause: BaseException | str,
        *,
        key: str | None = None,
        shard: str | None = None,
        offset: int | None = None,
    ) -> None:
        self.stage, self.key, self.shard, self.offset = stage, key, shard, offset
        if isinstance(cause, BaseException):
            self.__cause__ = cause
            # A KeyError's text is the repr of its message.
            plain = cause.args[0] if isinstance(cause, KeyError) and cause.args else cause
            reason = f"{type(cause).__name__}: {plain}"
        else:
            reason = cause
        self.reason = reason
        place = [f"sample {key!r}" if key is not None else "a sample"]
        if shard:
            place.append(f"in {shard}")
        if offset is not None:
            place.append(f"at offset {offset}")
        super().__init__(f"{stage} failed on {' '.join(place)}: {reason}")


class QuarantineError(RunError):
    """More samples failed than the quarantine's budget allows."""


class LedgerError(RunError):
    """The sample ledger does not add up: a sample was lost or delivered twice."""


class PrecisionError(RunError):
    """The precision that was asked for is not the one in effect."""


class CheckpointError(RunError):
    """A checkpoint is damaged, incomplete or does not fit what is to go on from it."""


class CloseError(RunError):
    """Something did not come back in time on close; the message names it."""


class VerdictError(StokerError):
    """A verdict that fails its brief."""

    exit_code = 3


class StaleError(StokerError):
    """An operating configuration that no longer fits model, data, software or hardware."""

    exit_code = 4


def nearest(given: str, known: Iterable[str]) -> str | None:
    """Return the known name closest to `given` in any case, or None where nothing is close."""
    names = list(known)
    whole = {name.lower(): name for name in names}
    tails = {name.rsplit(".", 1)[-1]: name for name in whole}
    given = given.lower()
    close = difflib.get_close_matches(given, list(whole), n=1, cutoff=0.6)
    if close:
        return whole[close[0]]
    close = difflib.get_close_matches(given.rsplit(".", 1)[-1], list(tails), n=1, cutoff=0.6)
    return whole[tails[close[0]]] if close else None


def unknown_name(
    what: str, given: str, known: Iterable[str], hint: str = "", *, owner: str = ""
) -> str:
    """Say that `given` is no known `what` (of an owner), with the nearest right name."""
    names = sorted(name for name in known if name)
    text = f"{owner} has no {what} {given!r}" if owner else f"no {what} {given!r}"
    near = nearest(given, names)
    if near:
        text += f"; did you mean {near!r}?"
    elif names:
        text += f"; known: {', '.join(names[:12])}" + (" …" if len(names) > 12 else "")
    return f"{text} ({hint})" if hint else text


def reason_of(error: BaseException) -> str:
    """Return an error's type and message, whatever the error is like."""
    name = type(error).__name__
    try:
        # str() of a KeyError is the repr of its message.
        plain = isinstance(error, KeyError) and len(error.args) == 1 and " " in str(error.args[0])
        text = str(error.args[0] if plain else error).strip()
    except Exception as fault:
        text = f"(its message cannot be shown: {type(fault).__name__})"
    return f"{name}: {text}" if text else name


class _Short(reprlib.Repr):
    """Looks at no more of a value than is shown: a parameter may hold a whole data set."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdict = 30
        self.maxstring = self.maxother = self.maxlong = 200

    def repr_bytes(self, value: bytes, level: int) -> str:
        return repr(value[: self.maxstring])

    def repr_dict(self, value: dict[Any, Any], level: int) -> str:
        if level <= 0 and value:
            return "{...}"
        parts = [
            f"{self.repr1(key, level - 1)}: {self.repr1(part, level - 1)}"
            for key, part in islice(value.items(), self.maxdict)
        ]
        return f"{{{', '.join(parts)}}}"


_short = _Short()


def describe_given(value: Any) -> str:
    """Return a short repr of a value that a user gave, on one line, for error messages."""
    text = " ".join(line.strip() for line in _short.repr(value).splitlines())
    return text if len(text) <= 60 else text[:57] + "..."
