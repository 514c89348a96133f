"""How a fresh process is made like its parent: import path, folder, the user's script."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
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
    script: dict[str, Any]
    """How to run the user's script, should a sample name something of it."""


def opening(assignment: bytes, worker: int, generation: int) -> Opening:
    """Return the first message; its parts are what `multiprocessing.spawn.prepare` takes.

    The user's script runs again only where something names a part of it.
    """
    told: dict[str, Any] = {
        "name": "stoker-worker",
        "sys_path": import_path(),
        "sys_argv": list(sys.argv),
    }
    with suppress(OSError):  # the folder is gone
        told["dir"] = os.getcwd()
    kind, where = main_module()
    script = {f"init_main_from_{kind}": where} if kind else {}
    if names_main(assignment):
        told, script = told | script, {}
    return Opening(told, assignment, worker, generation, script)


def import_path() -> list[str]:
    """Return `sys.path`, and where relative entries led to before the folder was changed."""
    path = [str(entry) for entry in sys.path]
    if all(map(os.path.isabs, path)):
        return path
    roots = {_root(module) for name, module in list(sys.modules.items()) if "." not in name}
    return path + sorted(roots - {"", *path})


def _root(module: Any) -> str:
    """Return the folder that a top-level module was found in, "" where it was in none."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or not os.path.isabs(file):
        return ""
    folder = os.path.dirname(file)
    return os.path.dirname(folder) if hasattr(module, "__path__") else folder


def know_the_script_by_both_names() -> None:
    """Let objects of the user's script come back: a child that ran it has it as `__mp_main__`."""
    sys.modules["__mp_main__"] = sys.modules["__main__"]


def names_main(pickled: bytes | bytearray) -> bool:
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
