"""Everything that was measured about a watched loader, before anything is concluded.

Also made by hand, for machines that are not here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

from stoker.watching import table as t
from stoker.watching.figures import Figures, Slot
from stoker.watching.loops import Epoch, Loop
from stoker.watching.meter import FIXED


@dataclass
class Settings:
    """What a loader is set to."""

    kind: str = "DataLoader"
    num_workers: int = 0
    prefetch_factor: int = 2
    persistent_workers: bool = False
    pin_memory: bool = False
    in_order: bool = True
    batch_size: int | None = None


@dataclass
class Facts:
    """What was measured about one loader. All times in seconds."""

    settings: Settings
    cores: float
    loop: Loop
    work: Figures
    """Of whoever loads: the workers, or the loop's own thread."""
    main: Figures
    """Of the loop's own thread."""
    gpu_in_use: bool = False
    cautions: list[str] = field(default_factory=list)

    @property
    def is_loader(self) -> bool:
        """Whether this is a torch DataLoader."""
        return self.settings.kind == "DataLoader"

    @property
    def is_multi(self) -> bool:
        """Whether worker processes load."""
        return self.settings.num_workers > 0

    # -- the loop ---------------------------------------------------------------------

    @property
    def total_s(self) -> float:
        """All passes, from `iter()` to the last `next()`."""
        return sum(epoch.total_ns for epoch in self.loop.epochs) / 1e9

    @property
    def wait_s(self) -> float:
        """Waiting for a batch, on average, without the first ones."""
        return _mean(self.loop.waits.total, self.loop.waits.count)

    @property
    def step_s(self) -> float:
        """From a batch to the call for the next, on average."""
        return _mean(self.loop.steps.total, self.loop.steps.count)

    @property
    def period_s(self) -> float:
        """From batch to batch, on average, without epoch starts and ends."""
        return self.wait_s + self.step_s

    @property
    def pause_s(self) -> float:
        """What an epoch's start and end take, on average; the cold first one if alone."""
        epochs = self._warm_epochs or [epoch for epoch in self.loop.epochs if epoch.batches]
        return sum(epoch.pause_ns for epoch in epochs) / max(len(epochs), 1) / 1e9

    @property
    def epoch_s(self) -> float:
        """A whole epoch, on average; the cold first one if alone."""
        epochs = self._warm_epochs or self.loop.epochs
        return sum(epoch.total_ns for epoch in epochs) / max(len(epochs), 1) / 1e9

    @property
    def wait_share(self) -> float:
        """Share of the time that the step waited for data; the cold start does not count."""
        paused = sum(epoch.pause_ns for epoch in self._warm_epochs)
        waited = paused + self.loop.waits.total
        total = waited + self.loop.steps.total
        if total:
            return waited / total
        return 1.0 if self.loop.batches else 0.0  # a single batch was only waited for

    @property
    def _warm_epochs(self) -> list[Epoch]:
        return [epoch for epoch in self.loop.epochs[1:] if epoch.batches]

    @property
    def batch_size(self) -> float | None:
        """Samples a batch, on average, or None where that is unknown."""
        if self.is_loader and self.work[t.BATCHES]:
            return self.work[t.ITEMS] / self.work[t.BATCHES]
        if self.loop.batch_sizes:
            return float(median(self.loop.batch_sizes))
        return self.settings.batch_size

    @property
    def items_per_batch(self) -> float:
        """What is metered as an item, a batch: samples, or 1 where only batches are seen."""
        return self.work[t.ITEMS] / self.work[t.BATCHES] if self.work[t.BATCHES] else 1.0

    # -- the work on a batch ----------------------------------------------------------

    @property
    def fetch_s(self) -> float | None:
        """One worker's time for a batch, without waiting for a core; None if not metered."""
        batches = self.work[t.BATCHES]
        if not batches:
            return None
        busy = self.work[t.BUSY_NS]
        return (busy - min(self.core_wait_ns or 0, 0.8 * busy)) / batches / 1e9

    @property
    def core_wait_ns(self) -> int | None:
        """Time in which whoever loads was ready and waited for a core, None if unknown."""
        if self.is_multi:
            return self.work.runqueue_ns
        waited, busy = self.loop.spent.runqueue_ns, self.work[t.BUSY_NS]
        elapsed = self.loop.spent.elapsed_ns
        return round(waited * min(busy / elapsed, 1.0)) if waited is not None and elapsed else None

    @property
    def own_cores(self) -> float:
        """Cores that this process and its workers used."""
        elapsed = self.loop.spent.elapsed_ns
        workers = self.work.total_cpu_ns if self.settings.num_workers else 0
        return (self.loop.spent.process_cpu_ns + workers) / elapsed if elapsed else 0.0

    @property
    def others_cores(self) -> float:
        """Cores that everybody else used, 0 where the system does not tell."""
        busy, elapsed = self.loop.spent.busy_ns, self.loop.spent.busy_elapsed_ns
        return max(busy / elapsed - self.own_cores, 0.0) if busy and elapsed else 0.0

    @property
    def free_cores(self) -> float:
        """Cores that this job may use and nobody else does."""
        return max(self.cores - self.others_cores, min(self.own_cores, self.cores), 0.25)

    @property
    def fetch_cpu_s(self) -> float | None:
        """CPU time of the loading thread for a batch."""
        fetch = self.work.slot("fetch")
        return fetch.cpu_ns / fetch.calls / 1e9 if fetch.calls else None

    @property
    def blocked_share(self) -> float:
        """Share of the work on a batch in which nothing is computed: I/O, locks, sleep."""
        fetch, cpu = self.fetch_s, self.fetch_cpu_s
        if not fetch or cpu is None:
            return 0.0
        return min(max(1.0 - (cpu + self.library_cpu_s) / fetch, 0.0), 1.0)

    @property
    def worker_cpu_s(self) -> float | None:
        """CPU time of all workers for a batch, sending it included."""
        if not self.is_multi or not self.work[t.BATCHES]:
            return None
        return self.work.process_cpu_ns / self.work[t.BATCHES] / 1e9

    @property
    def library_cpu_s(self) -> float:
        """CPU time of libraries' own threads in workers, for a batch."""
        if not self.is_multi or not self.work[t.BATCHES]:
            return 0.0
        known = self.work.main_cpu_ns + self.work[t.FEEDER_CPU_NS] + self.work[t.SAMPLER_CPU_NS]
        return max(self.work.process_cpu_ns - known, 0) / self.work[t.BATCHES] / 1e9

    @property
    def send_cpu_s(self) -> float:
        """CPU time of workers to send a batch to the parent."""
        return _mean(self.work[t.FEEDER_CPU_NS], self.work[t.BATCHES])

    @property
    def receive_cpu_s(self) -> float:
        """CPU time of the parent to receive a batch: in `next()` and in the pin thread."""
        if not self.is_multi or not self.is_loader:
            return 0.0
        spent, count = self.loop.next_cpu
        return _mean(spent, count) + _mean(self.loop.pin_cpu_ns, self.loop.batches)

    @property
    def step_cpu_s(self) -> float:
        """CPU time of this process in a step."""
        return _mean(*self.loop.step_cpu)

    @property
    def cpu_s(self) -> float:
        """CPU time of everything for a batch."""
        if self.is_multi:
            return self.step_cpu_s + self.receive_cpu_s + (self.worker_cpu_s or 0.0)
        return self.step_cpu_s + (self.fetch_cpu_s or 0.0)

    @property
    def fill(self) -> float | None:
        """Share of the batches in flight that were ready when one was asked for."""
        total, count = self.loop.fills
        return total / count if count else None

    # -- stages -----------------------------------------------------------------------

    @property
    def items(self) -> int:
        """Metered items."""
        return self.work[t.METERED_ITEMS]

    @property
    def transforms(self) -> dict[str, Slot]:
        """Metered transforms by name."""
        return {name: slot for name, slot in self.work.slots.items() if name not in FIXED}

    def share_of_fetch(self, name: str) -> tuple[float, float]:
        """Return a stage's own share of the work on a batch: of its time, of its CPU time."""
        fetch, slot = self.work.slot("fetch"), self.work.slot(name)
        batches = fetch.calls
        if name not in FIXED:
            batches = round(self.work[t.HOOKED_ITEMS] / max(self.items_per_batch, 1e-9))
        if not batches or not fetch.wall_ns:
            return 0.0, 0.0
        each = fetch.calls / batches
        wall, cpu = slot.own_wall_ns / fetch.wall_ns, slot.own_cpu_ns / max(fetch.cpu_ns, 1)
        return min(wall * each, 1.0), min(cpu * each, 1.0)

    def own_s(self, name: str) -> float:
        """Return a stage's time for a sample, without the stages metered inside it."""
        fixed = name in FIXED
        items = self.work[t.METERED_ITEMS] if fixed else self.work[t.HOOKED_ITEMS]
        return _mean(self.work.slot(name).own_wall_ns, items)

    @property
    def item_s(self) -> float:
        """One item's time in the data set, its transforms included."""
        whole = self.work.slot("dataset")
        if not whole.calls and not self.is_loader:
            whole = self.work.slot("fetch")  # what cannot be seen into is one item
        return _mean(whole.wall_ns, self.work[t.METERED_ITEMS])

    @property
    def collate_s(self) -> float:
        """Collate's time for a batch."""
        slot = self.work.slot("collate")
        return _mean(slot.wall_ns, slot.calls)

    def gil_share(self, name: str | None = None) -> tuple[float, float] | None:
        """Return bounds of the share of its time that a stage holds the GIL, None if not seen.

        Args:
            name: the stage, or None for all work on a batch.
        """
        slots = [
            slot
            for key, slot in self.work.slots.items()
            if (key == name if name is not None else key not in ("next", "step"))
        ]
        looks = sum(slot.looks for slot in slots)
        if looks < 6:
            return None
        share = sum(slot.python + slot.held for slot in slots) / looks
        error = 1.6 * (share * (1.0 - share) / looks) ** 0.5 + 0.5 / looks
        return max(share - error, 0.0), min(share + error, 1.0)

    @property
    def decoded_pixels(self) -> float | None:
        """Pixels of a decoded picture, on average."""
        count = self.work[t.DECODED]
        return self.work[t.DECODED_PIXELS] / count if count else None

    @property
    def delivered_pixels(self) -> float | None:
        """Pixels of a picture in a batch."""
        return float(median(self.loop.pixels)) if self.loop.pixels else None


def _mean(total: float, count: int) -> float:
    """Return a mean of nanoseconds in seconds, 0 of nothing."""
    return total / count / 1e9 if count else 0.0
