"""What the commands print with."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from rich.console import Console


def console(*, stderr: bool = False) -> Console:
    """Return a console that writes no colour where nobody sees it."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else 120
    return Console(stderr=stderr, highlight=False, width=width, soft_wrap=False)


def print_json(thing: Any) -> None:
    """Print one JSON object to standard output."""
    print(json.dumps(thing, indent=1, allow_nan=False, default=str))
