"""The command line: one module a command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; the installed script exits with it.

    0 success, 1 a run that failed, 2 wrong use, 3 a verdict that fails its brief,
    4 a stale configuration, 130 interrupted.
    """
    # OpenMP's threads spin while they wait for one another. Where they share the cores with
    # loader threads that multiplies the step's time (measured: by 2 to 9). Read when torch loads.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from stoker.cli.app import run_app

    given = list(sys.argv[1:] if argv is None else argv)
    trace = os.environ.get("STOKER_TRACEBACK", "0") not in ("", "0")
    if "--traceback" in given:
        given.remove("--traceback")
        trace = True
    return run_app(given, trace)
