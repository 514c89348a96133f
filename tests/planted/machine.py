"""A machine in virtual time: cores shared fairly, and a GIL in each process.

Threads are generators that yield what they need next (`Demand`). Between demands
they run Python, so a thread is resumed only on a core and with its process's GIL.
Nothing here knows about pipelines.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Any

from tests.planted.threads import Demand, Gil, Mutex, Process, Thread

SLICE_NS = 3_000_000
SWITCH_INTERVAL_NS = 5_000_000  # sys.getswitchinterval()
# Fairness: a thread that slept may run before others by this much of their time on a core, ...
CREDIT_NS = 3_000_000
# ... it takes the core from one that is ahead by this much, ...
PREEMPTION_NS = 1_000_000
# ... and time on a core that nobody else wanted counts against a thread up to this much.
DEBT_NS = 10_000_000


class Machine:
    """Cores, a clock, and what is to happen.

    Args:
        cores: how many there are.
    """

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self.now_ns = 1_000_000_000  # not 0, which means "never" to meters
        self.contended_ns = 0
        """How long some thread was waiting for a core."""
        self._contended_since: int | None = None
        self._events: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = itertools.count()
        self._ready: list[tuple[int, int, Thread]] = []
        self._running: list[Thread] = []
        self._floor_ns = 0

    # -- time --------------------------------------------------------------------

    def at(self, ns: int, action: Callable[..., None], *given: Any) -> None:
        """Let something happen at a moment."""
        heappush(self._events, (ns, next(self._number), action, given))

    def run_until(self, ns: int) -> None:
        """Let time pass; all counters are up to date then."""
        self._dispatch()
        while self._events and self._events[0][0] <= ns:
            self.now_ns, _, action, given = heappop(self._events)
            action(*given)
            self._dispatch()
        self.now_ns = ns
        for thread in self._running:
            self._account(thread)
        self._note_contention()

    # -- threads -----------------------------------------------------------------

    def start(self, thread: Thread, program: Iterator[Demand]) -> None:
        """Let a thread run a program."""
        thread.program = program
        self.wake(thread)

    def wake(self, thread: Thread) -> None:
        """Let a thread that blocked or was idle go on once it gets a core."""
        self._queue(thread)

    def gil_held_ns(self, process: Process) -> int:
        """Return how long a process's GIL was held so far."""
        gil = process.gil
        return gil.held_ns + (self.now_ns - gil.since_ns if gil.holder is not None else 0)

    # -- cores -------------------------------------------------------------------

    def _dispatch(self) -> None:
        """Put ready threads on cores. Not nested: no thread runs inside another's turn."""
        while self._ready:
            if len(self._running) == self.cores:
                victim = max(self._running, key=self._fair_now)
                if self._fair_now(victim) - self._ready[0][0] <= PREEMPTION_NS:
                    break
                self._leave(victim, "ready")
                self._queue(victim)
            thread = heappop(self._ready)[2]
            thread.runqueue_ns += self.now_ns - thread.since_ns
            thread.state, thread.since_ns = "running", self.now_ns
            self._running.append(thread)
            self._go_on(thread)
        self._note_contention()

    def _note_contention(self) -> None:
        if self._contended_since is not None:
            self.contended_ns += self.now_ns - self._contended_since
        self._contended_since = self.now_ns if self._ready else None

    def _queue(self, thread: Thread) -> None:
        thread.state, thread.since_ns = "ready", self.now_ns
        thread.turn += 1
        self._clamp(thread)
        heappush(self._ready, (thread.fair_ns, next(self._number), thread))

    def _clamp(self, thread: Thread) -> None:
        """Forget old credit and debt: fairness is about those who compete now."""
        least = min((other.fair_ns for other in self._running), default=self._floor_ns)
        if self._ready:
            least = min(least, self._ready[0][0])
        self._floor_ns = max(self._floor_ns, least)
        low, high = self._floor_ns - CREDIT_NS, self._floor_ns + DEBT_NS
        thread.fair_ns = min(max(thread.fair_ns, low), high)

    def _fair_now(self, thread: Thread) -> int:
        return thread.fair_ns + self.now_ns - thread.since_ns

    def _account(self, thread: Thread) -> None:
        spent = self.now_ns - thread.since_ns
        thread.cpu_ns += spent
        thread.fair_ns += spent
        thread.left_ns -= spent
        thread.since_ns = self.now_ns

    def _leave(self, thread: Thread, state: str) -> None:
        """Take a thread off its core."""
        self._account(thread)
        self._running.remove(thread)
        thread.state = state
        thread.turn += 1

    def _slice(self, thread: Thread) -> None:
        length = min(thread.left_ns, SLICE_NS)
        self.at(self.now_ns + length, self._slice_ends, thread, thread.turn)

    def _slice_ends(self, thread: Thread, turn: int) -> None:
        if turn != thread.turn:
            return
        self._account(thread)
        if thread.left_ns <= 0:
            self._go_on(thread)
        elif self._ready and self._ready[0][0] < thread.fair_ns:
            self._leave(thread, "ready")
            self._queue(thread)
        else:
            self._clamp(thread)
            self._slice(thread)

    # -- what a thread on a core does --------------------------------------------

    def _go_on(self, thread: Thread) -> None:
        """Let a thread on a core work, or go on to what it needs next."""
        gil = thread.process.gil
        while True:
            if thread.left_ns > 0 and thread.doing == "c":
                self._slice(thread)
                return
            if gil.holder is not thread and not self._take_gil(thread, gil):
                return
            if thread.left_ns > 0:
                if gil.drop_asked:
                    self._release_gil(gil)
                    self._wait_for_gil(thread, gil)
                else:
                    self._slice(thread)
                return
            if not self._next_demand(thread, gil):
                return

    def _next_demand(self, thread: Thread, gil: Gil) -> bool:
        """Take up a thread's next demand; return whether it keeps its core."""
        demand = next(thread.program, None)
        if demand is None:
            self._release_gil(gil)
            self._leave(thread, "ended")
        elif demand.kind in ("py", "c"):
            thread.doing, thread.left_ns = demand.kind, demand.ns
            if demand.kind == "c":
                self._release_gil(gil)
        elif demand.kind == "block":
            self._release_gil(gil)
            self._leave(thread, demand.cause)
            self.at(self.now_ns + demand.ns, self.wake, thread)
        elif demand.kind == "idle":
            self._release_gil(gil)
            self._leave(thread, "idle")
        elif demand.kind == "acquire":
            assert demand.mutex is not None
            self._acquire(thread, demand.mutex, gil)
        else:
            assert demand.mutex is not None
            self._hand_over(demand.mutex)
        return thread.state == "running"

    def _acquire(self, thread: Thread, mutex: Mutex, gil: Gil) -> None:
        if mutex.owner is None:
            mutex.owner = thread
            return
        mutex.waiting.append(thread)
        self._release_gil(gil)
        self._leave(thread, "lock")

    def _hand_over(self, mutex: Mutex) -> None:
        mutex.owner = mutex.waiting.popleft() if mutex.waiting else None
        if mutex.owner is not None:
            self.wake(mutex.owner)

    # -- the GIL -----------------------------------------------------------------

    def _take_gil(self, thread: Thread, gil: Gil) -> bool:
        if gil.holder is not None:
            self._wait_for_gil(thread, gil)
            return False
        gil.holder, gil.since_ns = thread, self.now_ns
        gil.drop_asked = False
        gil.switches += gil.last_holder is not thread
        gil.last_holder = thread
        return True

    def _release_gil(self, gil: Gil) -> None:
        gil.held_ns += self.now_ns - gil.since_ns
        gil.holder = None
        if gil.waiting:  # woken, but who is on a core now may be faster
            self.wake(gil.waiting.popleft())

    def _wait_for_gil(self, thread: Thread, gil: Gil) -> None:
        self._leave(thread, "gil")
        gil.waiting.append(thread)
        self._ask_later(thread, gil)

    def _ask_later(self, thread: Thread, gil: Gil) -> None:
        at_ns = self.now_ns + SWITCH_INTERVAL_NS
        self.at(at_ns, self._ask_for_gil, thread, thread.turn, gil, gil.switches)

    def _ask_for_gil(self, thread: Thread, turn: int, gil: Gil, switches: int) -> None:
        """Ask the holder to let go, unless the GIL changed hands since the wait began."""
        if turn != thread.turn:
            return
        holder = gil.holder
        if holder is not None and gil.switches == switches and not gil.drop_asked:
            gil.drop_asked = True
            if holder.state == "running":  # else once it is on a core again
                self._account(holder)
                holder.turn += 1
                self._go_on(holder)
        if thread.state == "gil":
            self._ask_later(thread, gil)
