"""Errors pass through unchanged: our frames are taken out of their tracebacks.

A DataLoader sends an error from its worker as text, so without this our frames would show
in the message that the person reads.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Final

_OURS: Final = str(Path(__file__).parent)


def without_our_frames(error: BaseException) -> None:
    """Take the frames of this package out of an error's tracebacks, and of those behind it."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.__traceback__ = _cleaned(one.__traceback__)
        waiting += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions


def _cleaned(trace: TracebackType | None) -> TracebackType | None:
    first: TracebackType | None = None
    last: TracebackType | None = None
    while trace is not None:
        if not _is_ours(trace):
            if last is None:
                first = trace
            else:
                last.tb_next = trace
            last = trace
        trace = trace.tb_next
    if last is not None:
        last.tb_next = None
    return first


def _is_ours(trace: TracebackType) -> bool:
    return trace.tb_frame.f_code.co_filename.startswith(_OURS)


def clean_worker_errors() -> None:
    """In a DataLoader's worker, send errors without our frames."""
    from torch._utils import ExceptionWrapper

    wrapper: Any = ExceptionWrapper
    original = wrapper.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        error = sys.exc_info()[1]
        if error is not None:
            without_our_frames(error)
        original(self, *args, **kwargs)

    wrapper.__init__ = __init__
