"""One worker as its readers see it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from stoker.measure.meter import Meter, WaitMeter
from stoker.measure.whereabouts import Whereabouts


@dataclass
class WorkerState:
    """One worker as its readers see it."""

    index: int
    meters: dict[str, Meter]
    waits: WaitMeter = field(default_factory=WaitMeter)
    thread: threading.Thread | None = None
    runqueue_ns: int | None = None
    """As last read: a thread that has ended tells no more."""
    whereabouts: Whereabouts = field(default_factory=Whereabouts)
    """Which stage it is in, for an observer outside the process."""
