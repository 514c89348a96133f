"""How much may be in flight, and how many samples a hand-over carries: learnt on the way."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.engine.jobs import Chunk

# A hand-over between threads is 15-20 µs of code, whatever the primitive. Where threads contend
# for the GIL and for cores it comes to 50 µs of CPU time and 30 of waiting (measured with 1 ms of
# work a sample that lets go of the GIL, 2 threads on 2 cores).
HOP_NS = 80_000
# One to another process and back: pickling, two system calls, two wake-ups.
PROCESS_HOP_NS = 150_000
# Work per hand-over, in hops: the hop then costs at most 1 %.
WORK_PER_HOP = 100
MAX_CHUNK = 256
# Samples in flight at least, so that one slow sample does not stop the others at once.
MIN_WINDOW = 64


@dataclass(frozen=True)
class Limits:
    """How much a flow may hold."""

    prefetch_bytes: int
    prefetch_batches: int
    workers: int
    """Threads and processes that work on samples; 0 when the consumer does it all."""
    hop_ns: int = HOP_NS
    """What the dearest hand-over costs."""


class Pace:
    """Sets the size of coming chunks by what finished ones cost."""

    def __init__(self, limits: Limits) -> None:
        self.chunk_size = 1
        self._budget, self._work_ns = limits.prefetch_bytes, WORK_PER_HOP * limits.hop_ns
        self._consumer_works = limits.workers == 0
        self.ns_per_sample = 0.0
        self.bytes_per_sample = 0.0
        self._workers = max(limits.workers, 1)

    def allows(self, live: int, blind: int, held: int) -> bool:
        """Whether one more chunk may start.

        Args:
            live: chunks in flight.
            blind: those of them that were started before any size was known.
            held: bytes in flight.
        """
        if live == 0:
            return True
        if self._consumer_works:
            return False  # one chunk at a time
        if blind:
            return live < self._workers  # until the sizes in flight are known
        window = max(4 * self._workers, MIN_WINDOW // self.chunk_size)
        coming = self.bytes_per_sample * self.chunk_size
        return live < window and held + coming <= self._budget

    def learn(self, chunk: Chunk, left: int | None) -> None:
        """Take a finished chunk into account; `left` samples of its epoch are still to start."""
        made, asked = len(chunk.samples), chunk.asked
        if not asked:
            return
        cost, known = chunk.work_ns / asked, self.ns_per_sample
        self.ns_per_sample = 0.8 * known + 0.2 * cost if known else cost
        if made:
            # Rises at once and falls slowly: it guards the byte budget.
            self.bytes_per_sample = max(chunk.nbytes / made, 0.9 * self.bytes_per_sample)
        fitting = int(self._work_ns / max(self.ns_per_sample, 1.0))
        if left is not None:  # enough chunks for every worker, also near an epoch's end
            fitting = min(fitting, left // (4 * self._workers))
        if self.bytes_per_sample:  # each worker's chunk has to fit into the byte budget
            fitting = min(fitting, int(self._budget / self.bytes_per_sample / self._workers))
        # Growth is gradual: the first samples also pay for imports and cold caches.
        self.chunk_size = max(1, min(fitting, 2 * self.chunk_size, MAX_CHUNK))
