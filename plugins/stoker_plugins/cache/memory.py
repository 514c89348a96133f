"""A cache in the loader's own memory."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import ClassVar

from stoker.cache import Cache, Fed, Store
from stoker.measure.host import available_memory, local_ranks
from stoker.sample import Address, Sample
from stoker_plugins.cache.copies import frozen, held_nbytes, seal, thawed

# Of what is free, for all ranks here, where no budget is given: the step and the page cache
# need some too.
SHARE = 0.5
# What a kept sample takes beside its values: its address, its place in the index and the set.
_OVERHEAD_NBYTES = 200


@dataclass(frozen=True)
class Memory(Cache):
    """Keep samples in memory, as many as the budget holds; the others are made each time.

    Nothing is ever thrown out for something newer: where each epoch has another order, and
    not all fit, that would throw out what the next epoch wants. Arrays are kept as copies of
    their own and handed out read-only. Without `max_bytes` it takes up to half of the memory
    that is free when it starts, shared among the ranks of this machine. Every rank keeps what
    it has seen itself, and nothing outlives the loader.
    """

    name: ClassVar[str] = "cache.memory"
    example: ClassVar[str] = "cache.Memory(max_bytes=8 * 2**30)"

    def budget(self) -> int:
        """Return the bytes that it would keep at the most."""
        return self.max_bytes or int(available_memory() / local_ranks() * SHARE)

    def nbytes_of(self, sample: Sample) -> int:
        """Return the bytes that a kept sample takes, Python's objects with it."""
        return kept_nbytes(sample)

    def store(self, fed: Fed) -> Store:
        """Return an empty store."""
        return MemoryStore(self.budget())


def kept_nbytes(sample: Sample) -> int:
    """Return the bytes that a copy of a sample takes, with its place in the store."""
    return held_nbytes(sample) + _OVERHEAD_NBYTES


class MemoryStore(Store):
    """Keeps samples in a dict.

    Args:
        budget: bytes to keep at the most.
    """

    def __init__(self, budget: int) -> None:
        self._budget, self._nbytes = budget, 0
        self._kept: dict[Address, Sample] = {}
        self._coming: set[Address] = set()
        """Addresses that have taken room: those of what is kept, and of what is being copied."""
        self._lock = threading.Lock()

    def has(self, address: Address) -> bool:
        """Say whether a sample is kept."""
        return address in self._kept

    def get(self, address: Address) -> Sample | None:
        """Return a sample: containers are the caller's own, arrays are read-only."""
        kept = self._kept.get(address)
        return None if kept is None else {name: thawed(value) for name, value in kept.items()}

    def put(self, address: Address, sample: Sample) -> None:
        """Keep a copy of a sample, if there is room.

        Raises:
            TypeError: it holds something that cannot be copied for sure.
        """
        seal(sample)
        if address in self._kept:
            return
        size = kept_nbytes(sample)
        with self._lock:
            if address in self._coming or self._nbytes + size > self._budget:
                return
            # Taken before it is copied, so that no two take the same room.
            self._coming.add(address)
            self._nbytes += size
        try:
            copy = {name: frozen(value, name) for name, value in sample.items()}
        except BaseException:
            with self._lock:
                if address in self._coming:
                    self._coming.remove(address)
                    self._nbytes -= size
            raise
        with self._lock:
            if address in self._coming:  # else it was closed meanwhile
                self._kept[address] = copy

    @property
    def nbytes(self) -> int:
        """Bytes that are kept."""
        return self._nbytes

    @property
    def count(self) -> int:
        """Samples that are kept."""
        return len(self._kept)

    def close(self) -> None:
        """Let go of everything."""
        with self._lock:
            self._kept, self._coming, self._nbytes = {}, set(), 0
