"""How a fresh process is made like its parent: import path, folder, the user's script."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from stoker.errors import UsageError

# The page that a child shares: the number of the stage it is in. Stacks go behind it.
PAGE_BYTES = 4096
IDLE, BETWEEN = -1, -2
"""Instead of a stage's number: it has no work, or is at it outside of stages."""

_here = {"is_worker": False}


class Assignment(NamedTuple):
    """What a child is to be."""

    segment: int
    stages: Sequence[tuple[str, Any]]
    upstream: Sequence[tuple[str, Any]]
    seed: int
    quarantines: bool
    workers: int


class Opening(NamedTuple):
    """The first message: how to make this process like the parent, then what to be."""

    preparation: dict[str, Any]
    assignment: bytes
    """Pickled apart: it can only be read once the process is prepared."""
    worker: int
    generation: int
    """How many children the worker had before this one."""


def preparation(assignment: bytes) -> dict[str, Any]:
    """Return what `multiprocessing.spawn.prepare` needs to know.

    The user's script runs again only where the assignment names something of it.
    """
    told: dict[str, Any] = {
        "name": "stoker-worker",
        "sys_path": [str(entry) for entry in sys.path],
        "sys_argv": list(sys.argv),
        "dir": os.getcwd(),
    }
    if names_main(assignment):
        kind, where = main_module()
        if kind:
            told[f"init_main_from_{kind}"] = where
    return told


def names_main(pickled: bytes) -> bool:
    """Whether a pickle names something of the user's script (it may say so in vain)."""
    return b"__main__" in pickled or b"__mp_main__" in pickled


def main_module() -> tuple[str, str]:
    """Return how a child finds the script: by "name" or "path" and which, or ("", "")."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return "name", spec.name
    path = getattr(main, "__file__", None)
    if path is None or not os.path.isfile(path):
        return "", ""
    return "path", os.path.abspath(path)


def this_is_a_worker() -> None:
    """Note that this process is a child of ours."""
    _here["is_worker"] = True


def refuse_in_worker() -> None:
    """Refuse to start workers where this process is one.

    Raises:
        UsageError: it is.
    """
    if _here["is_worker"]:
        raise UsageError(
            "a worker's process runs your script again to find the stages defined in it, and the "
            "script would start workers of its own; put what it runs under "
            "`if __name__ == '__main__':`, or define the stages in a module"
        )
