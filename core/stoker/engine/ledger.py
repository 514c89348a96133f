"""The sample ledger: every sample that was read has exactly one fate."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from stoker.errors import LedgerError


@dataclass
class Ledger:
    """Counts of samples. `read` is counted by the read stage, the fates where they happen."""

    read: int = 0
    """Samples that the source was asked for."""
    cached: int = 0
    """Samples that a cache had, and that were not read."""
    expanded: int = 0
    """Extra samples that expanding stages made."""
    delivered: int = 0
    """Given to the consumer."""
    filtered: int = 0
    """Dropped by a stage that filters."""
    quarantined: int = 0
    """Failed, noted and left out."""
    failed: int = 0
    """Failed and stopped the run."""
    dropped_tail: int = 0
    """Left over at an epoch's end, too few for a batch."""
    padded: int = 0
    """Given to the consumer a second time, so that all ranks get as many batches."""
    unused: int = 0
    """Prefetched and not wanted any more: the run stopped, or an iteration was left."""

    @property
    def fates(self) -> int:
        """All samples whose fate is known."""
        return (
            self.delivered
            + self.filtered
            + self.quarantined
            + self.failed
            + self.dropped_tail
            + self.padded
            + self.unused
        )

    @property
    def balanced(self) -> bool:
        """Every sample read or made has a fate, and none has two."""
        return self.fates == self.read + self.cached + self.expanded

    def check(self) -> None:
        """Raise `LedgerError` where a sample was lost or counted twice."""
        if not self.balanced:
            off = self.read + self.cached + self.expanded - self.fates
            raise LedgerError(
                f"the sample ledger is off by {off}: {self}; this is a fault of the engine or of "
                "a stage that changes the number of samples behind its back"
            )

    def add(self, other: Ledger) -> None:
        """Add another ledger's counts to this one: once for every hand-over, so written out."""
        self.read += other.read
        self.cached += other.cached
        self.expanded += other.expanded
        self.delivered += other.delivered
        self.filtered += other.filtered
        self.quarantined += other.quarantined
        self.failed += other.failed
        self.dropped_tail += other.dropped_tail
        self.padded += other.padded
        self.unused += other.unused

    def to_dict(self) -> dict[str, int | bool]:
        """Return the counts, JSON-able, with `balanced`."""
        return {**asdict(self), "balanced": self.balanced}

    def __str__(self) -> str:
        fates = [
            f"{name.replace('_', ' ')} {count}"
            for name, count in asdict(self).items()
            if name not in ("read", "cached", "expanded") and (count or name == "delivered")
        ]
        extra = f" + cached {self.cached}" if self.cached else ""
        extra += f" + expanded {self.expanded}" if self.expanded else ""
        return f"read {self.read}{extra} = {' + '.join(fates)}"


class EpochLedgers:
    """A ledger for each epoch, since a later one may be under way before the consumer is there."""

    def __init__(self) -> None:
        self._epochs: dict[int, Ledger] = {}

    def of(self, epoch: int) -> Ledger:
        """Return the ledger of one epoch."""
        ledger = self._epochs.get(epoch)  # at every hand-over: makes none for nothing
        if ledger is None:
            ledger = self._epochs[epoch] = Ledger()
        return ledger

    def total(self, until: int | None = None) -> Ledger:
        """Return the sum, of all epochs or up to one of them."""
        total = Ledger()
        for epoch in list(self._epochs):
            if until is None or epoch <= until:
                total.add(self._epochs[epoch])
        return total
