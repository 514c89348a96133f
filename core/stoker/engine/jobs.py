"""What is handed over: chunks of samples, batches, and the marks between epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stoker.engine.course import Leg, Place, Span
from stoker.engine.ledger import Ledger
from stoker.errors import RunError
from stoker.sample import Address, Batch, Origin, Sample, origin_of

if TYPE_CHECKING:
    from stoker.engine.flow import Flow
    from stoker.engine.segment import Segment


class Job:
    """One hand-over. It belongs to one thread at a time, so it needs no lock."""

    __slots__ = (
        "cpu_ns",
        "ends_epoch",
        "epoch",
        "error",
        "flow",
        "index",
        "measured",
        "nbytes",
        "segment",
        "tally",
        "wall_ns",
        "work_ns",
    )

    def __init__(self, flow: Flow, index: int, epoch: int) -> None:
        self.flow = flow
        self.index = index
        """Its number in its section: results come out in this order."""
        self.epoch = epoch
        self.segment: Segment | None = None
        """Who works on it next; None when its section is through with it."""
        self.error: RunError | None = None
        """What ends the run once all that lies before it was delivered."""
        self.nbytes = 0
        """Bytes it is accounted with in the flow, an estimate until it has been through."""
        self.measured = 0
        """Bytes it was found to hold."""
        self.wall_ns = self.cpu_ns = 0
        """Clock readings where the last stage ended: the next one starts there."""
        self.work_ns = 0
        """Time that stages spent on it."""
        self.tally = Ledger()
        """Fates that samples met in this job."""
        self.ends_epoch = False
        """It carries nothing and marks that an epoch is over."""

    @property
    def size(self) -> int:
        """Samples that it holds."""
        return 0


class Chunk(Job):
    """Neighbouring samples of one epoch, with their positions as columns."""

    __slots__ = (
        "addresses",
        "aside",
        "asked",
        "blind",
        "incomplete",
        "leg",
        "lost",
        "order",
        "parts",
        "positions",
        "samples",
        "sizes",
    )

    def __init__(
        self, flow: Flow, index: int, epoch: int, order: Sequence[Address], leg: Leg
    ) -> None:
        super().__init__(flow, index, epoch)
        self.leg = leg
        """Where it lies in the epoch."""
        first, count = leg.first, leg.length
        self.order = order
        """All addresses of the epoch (empty for streams)."""
        addresses: Any = order[first : first + count]
        # Plain ints: stages index and hash them faster than NumPy's.
        self.addresses: Sequence[Address] = (
            addresses.tolist() if hasattr(addresses, "tolist") else addresses
        )
        self.aside: list[tuple[int, Address]] = []
        """Position and address of samples that a cache has, and that join the others there."""
        self.asked = count
        self.incomplete = False
        """The stream ended before all ranks had their block of this round."""
        self.positions: Sequence[int] = range(first, first + count)
        self.parts: list[int] | None = None
        """Which part of an expanded sample each one is, or None where nothing was expanded."""
        self.samples: list[Sample] = []
        self.lost = 0
        """Failures of the stream itself that its tally holds."""
        self.blind = False
        """It was started before any sample's size was known."""
        self.sizes: list[Any] | None = None
        """What the gather needs to know of each sample."""

    @property
    def size(self) -> int:
        return len(self.samples) + len(self.aside)

    def missing(self) -> list[Span]:
        """Return the positions that an error kept from becoming samples."""
        if self.error is None:
            return []
        made = len(self.samples)
        behind = self.positions[made - 1] + 1 if made else self.leg.first
        return [(behind, self.leg.first + self.leg.length)]

    def places(self) -> Sequence[Place]:
        """Return where in the epoch its samples stand."""
        if self.parts is None:
            return self.positions
        return list(zip(self.positions, self.parts, strict=True))

    def leave_out(self, wanted: Mapping[int, frozenset[int]]) -> None:
        """Leave the parts out that were delivered before the loader was stopped.

        Args:
            wanted: the parts still to come, of positions that were delivered in part.
        """
        if self.parts is None or not wanted:
            return
        pairs = list(zip(self.positions, self.parts, strict=True))
        kept = [i for i, (n, part) in enumerate(pairs) if n not in wanted or part in wanted[n]]
        self.tally.expanded -= len(pairs) - len(kept)
        self.keep(kept)

    def keep(self, indices: Sequence[int]) -> None:
        """Keep only the samples at these indices, in every column."""
        self.samples = [self.samples[i] for i in indices]
        self.positions = [self.positions[i] for i in indices]
        if self.parts is not None:
            self.parts = [self.parts[i] for i in indices]


class BatchJob(Job):
    """One batch on its way, from a list of samples to what the consumer receives."""

    __slots__ = ("_origin", "batch", "count", "number", "padding", "places", "samples")

    def __init__(
        self,
        flow: Flow,
        index: int,
        epoch: int,
        number: int,
        samples: list[Sample],
        places: Sequence[Place] = (),
    ) -> None:
        super().__init__(flow, index, epoch)
        self.number = number
        """Its number in the epoch."""
        self.samples = samples
        self.places = places
        """Where in the epoch its samples stand."""
        self.padding = False
        """Its samples are another rank's too: it is there so that all get as many batches."""
        self.count = len(samples)
        self.batch: Batch = None
        self._origin: Origin | None = None

    @property
    def size(self) -> int:
        return self.count

    def release_samples(self) -> None:
        """Let go of the samples, whose data the batch holds now; remember where they came from."""
        self._origin = self.origin()
        self.samples = []

    def origin(self) -> Origin:
        """Return where the batch's samples came from, for messages."""
        if self._origin is not None:
            return self._origin
        first, last = origin_of(self.samples[0]), origin_of(self.samples[-1])
        if len(self.samples) == 1:
            return first
        return Origin(key=f"{first.key} … {last.key} ({len(self.samples)} samples of one batch)")
