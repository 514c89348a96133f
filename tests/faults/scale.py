"""How much the fault suite does: a little each time, all of it for `make prove`."""

from __future__ import annotations

import os

LONG = os.environ.get("STOKER_PROVE") == "1"


def scaled(short: int, long: int) -> int:
    """Return a number of rounds."""
    return long if LONG else short
