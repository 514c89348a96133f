"""What runs on a simulated machine: processes, their threads, what these ask for and share."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class Demand:
    """What a thread needs before it goes on.

    Args:
        kind: "c" (a core for some time, without the GIL), "py" (a core and the GIL), "block"
            (time), "acquire" or "release" (a mutex), "idle" (until it is woken).
        ns: how long.
        cause: what a thread that blocks is found doing.
        mutex: to acquire or release.
    """

    kind: str
    ns: int = 0
    cause: str = ""
    mutex: Mutex | None = None


class Mutex:
    """A lock, handed over in order of arrival."""

    def __init__(self) -> None:
        self.owner: Thread | None = None
        self.waiting: deque[Thread] = deque()


class Gil:
    """A process's GIL, as CPython has it: asked for after 5 ms, not handed over."""

    def __init__(self) -> None:
        self.holder: Thread | None = None
        self.last_holder: Thread | None = None
        self.waiting: deque[Thread] = deque()
        self.drop_asked = False
        self.switches = 0
        self.held_ns = self.since_ns = 0


@dataclass(eq=False)
class Process:
    """Threads that share a GIL and mutexes."""

    gil: Gil = field(default_factory=Gil)
    threads: list[Thread] = field(default_factory=list)
    mutexes: dict[str, Mutex] = field(default_factory=dict)

    def mutex(self, name: str) -> Mutex:
        """Return the mutex of that name."""
        return self.mutexes.setdefault(name, Mutex())

    @property
    def cpu_ns(self) -> int:
        """Time on cores, all threads."""
        return sum(thread.cpu_ns for thread in self.threads)


class Thread:
    """A program under way."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.program: Iterator[Demand] = iter(())
        self.state = "ready"
        """"running", "ready", "gil", "lock", "idle", "ended", or the cause of its block."""
        self.place = ""
        """The stage that it is in, for who looks at it from outside."""
        self.doing = ""
        self.left_ns = 0
        """What remains of the time on a core that it asked for."""
        self.cpu_ns = self.runqueue_ns = 0
        self.fair_ns = 0
        """Time on a core as fairness counts it: who has least is next."""
        self.since_ns = 0
        """Since when it is on its core, or ready for one."""
        self.turn = 0
        """Counts changes of state, so that what was set for an earlier one lapses."""
        process.threads.append(self)
