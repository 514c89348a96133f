"""What a thread is doing, read from its innermost frame and from how long the GIL was waited for.

If the GIL was free at once, the thread is in C code that let it go, or waits for something.
If not, it held the GIL. CPython makes a thread give the GIL up after the switch interval, at
its next jump, call or function start: promptly in Python, later in C code that holds the GIL.
"""

from __future__ import annotations

import dis
import linecache
import re
import sys
import sysconfig
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import Final, Literal

Doing = Literal["python", "held", "released"]

PYTHON_OPS: Final = ("RESUME", "JUMP_BACKWARD", "POP_JUMP_BACKWARD")
CALL_OPS: Final = ("CALL", "PRECALL")
# As tried: in a Python loop the GIL is handed over 0.2 ms after the switch interval.
_PROMPT_S: Final = 0.001
_DEPTH: Final = 40
_FETCHERS: Final = ("torch/utils/data/_utils/fetch.py", "torch/utils/data/_utils/worker.py")
_COLLATING: Final = re.compile(
    r"(?:^|[._])(?:\w*collate\w*|stack|hstack|vstack|cat|concat|concatenate|pad_sequence)$"
)
_OURS: Final = str(Path(__file__).parent)
_LIBRARIES: Final = tuple(
    {sysconfig.get_path(name) + "/" for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    | {_OURS, "<frozen"}
)

_operations: dict[tuple[CodeType, int], str] = {}


def doing(frame: FrameType, blocked_s: float, free_s: float) -> Doing:
    """Return what a thread was found doing.

    Args:
        frame: its innermost frame.
        blocked_s: how long the GIL was waited for, waking up included.
        free_s: what waking up takes when the GIL is free.
    """
    if blocked_s < free_s:
        return "released"
    interval = sys.getswitchinterval()
    if blocked_s < 0.9 * interval:
        return "held"  # and given up in the end, so nobody knows what for
    operation = operation_of(frame.f_code, frame.f_lasti)
    if operation.startswith(PYTHON_OPS) or blocked_s < interval + _PROMPT_S:
        return "python"
    return "held"


def operation_of(code: CodeType, at: int) -> str:
    """Return the name of the instruction at an offset, before the interpreter adapted it."""
    key = (code, at)
    found = _operations.get(key)
    if found is None:
        if len(_operations) > 2000:
            _operations.clear()
        at = min(at, len(code.co_code) - 2)
        while at > 0 and dis.opname[code.co_code[at]] == "CACHE":
            at -= 2  # left at the end of a call that began before
        found = dis.opname[code.co_code[at]] if at >= 0 else ""
        _operations[key] = found
    return found


def spot_of(frame: FrameType, sources: bool) -> tuple[str, bool]:
    """Return the function that a thread is in, in words, and whether it makes batches there.

    The innermost function that is no library's, and what it calls; where there is none,
    the library's function that the loader called.

    Args:
        frame: its innermost frame.
        sources: look the present call up in the source, which may read a file.
    """
    inner: list[str] = []
    library = frame
    at: FrameType | None = frame
    while at is not None and at.f_code.co_filename.startswith(_OURS):
        at = at.f_back  # a hook is just being entered or left
    while at is not None and len(inner) < _DEPTH:
        name = at.f_code.co_filename
        if name.startswith(_OURS) or name.endswith(_FETCHERS):
            at = None
        elif name.startswith(_LIBRARIES):
            inner.append(at.f_code.co_name)
            library, at = at, at.f_back
        else:
            break
    owner = (library if at is None else at).f_code
    own = owner.co_qualname.rpartition("<locals>.")[2]
    called = inner[-1] if inner else None
    if at is None:
        called = inner[0] if len(inner) > 1 else None
    elif called is None and sources:
        called = callee(at)
    names = [*inner, own, called or ""]
    place = f"({Path(owner.co_filename).name}:{owner.co_firstlineno})"
    text = f"{called} in {own} {place}" if called else f"{own} {place}"
    return text, any(_COLLATING.search(name) for name in names)


def callee(frame: FrameType) -> str | None:
    """Return what a frame is calling, as its source has it, or None where that is unknown."""
    code, at = frame.f_code, frame.f_lasti
    if at < 0 or not operation_of(code, at).startswith(CALL_OPS):
        return None
    position = next(islice(code.co_positions(), at // 2, None), None)
    if position is None or position[0] is None or position[2] is None:
        return None
    line = linecache.getline(code.co_filename, position[0], frame.f_globals)
    text = line.encode()[position[2] :].decode(errors="replace")
    found = re.match(r"[A-Za-z_][\w.]*(?=\()", text)
    return found.group() if found else None
