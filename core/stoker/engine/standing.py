"""Where a loader stands: all that is needed to go on exactly there, JSON-able."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from stoker.engine import checks
from stoker.engine.course import Place, Span, merged, neighbours, spans_of
from stoker.engine.ledger import Ledger
from stoker.errors import UsageError, describe_given

if TYPE_CHECKING:
    from stoker.engine.plan import Plan

VERSION = 1


@dataclass(frozen=True)
class StreamMark:
    """What a reader needs to find its way in an epoch of a stream."""

    starts: tuple[int, ...] = (0,)
    """The number of the first sample of each shard that was begun."""
    samples: int | None = None
    """Samples in the whole epoch, where its end was seen."""
    judged: tuple[int, int] = (0, 0)
    """The failures before this one stand in the ledger: its shard, and its number there."""
    retry: int | None = None
    """The first shard with a failure that was met and does not stand there yet."""
    shards: int | None = None
    """A digest of the epoch's shards, in order."""

    def to_dict(self) -> dict[str, Any]:
        """Return it, JSON-able."""
        return {**asdict(self), "starts": list(self.starts), "judged": list(self.judged)}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> StreamMark:
        """Return what `to_dict` was made of."""
        shard, number = given.get("judged", (0, 0))
        starts, retry = tuple(given["starts"]), given.get("retry")
        return cls(starts, given["samples"], (int(shard), int(number)), retry, given.get("shards"))


@dataclass(frozen=True)
class Standing:
    """A point between two deliveries.

    What was delivered is everything before `position` that is not in `waiting`.
    """

    epoch: int = 0
    batch: int = 0
    """Number of the next batch of the epoch (of all ranks together)."""
    position: int = 0
    """From here on nothing was delivered."""
    waiting: tuple[Span, ...] = ()
    """Positions before it that were not delivered either."""
    parts: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """Of positions that became several samples: the parts that were not delivered."""
    stream: StreamMark | None = None
    ledger: Ledger = field(default_factory=Ledger)
    """Fates of all that was delivered or will not be."""
    samples: int | None = field(default=None, compare=False)
    """Samples of its epoch, where that is known: to tell its end by, no part of the state."""

    def to_dict(self) -> dict[str, Any]:
        """Return it, JSON-able."""
        found: dict[str, Any] = {
            "version": VERSION,
            "epoch": self.epoch,
            "batch": self.batch,
            "position": self.position,
            "waiting": [list(span) for span in self.waiting],
            "parts": [[number, sorted(kept)] for number, kept in sorted(self.parts.items())],
            "ledger": {k: v for k, v in self.ledger.to_dict().items() if k != "balanced"},
        }
        if self.stream is not None:
            found["stream"] = self.stream.to_dict()
        return found

    @classmethod
    def from_dict(cls, given: Any) -> Standing:
        """Return what `to_dict` was made of.

        Raises:
            UsageError: it is no state of a loader, or one of another version.
        """
        if not isinstance(given, Mapping) or "version" not in given:
            raise UsageError(
                f"{describe_given(given)} is no state of a loader; give what its state_dict() "
                "returned"
            )
        if given["version"] != VERSION:
            raise UsageError(
                f"the state is of version {given['version']}, this is version {VERSION}: it "
                "cannot be read here"
            )
        try:
            stream = given.get("stream")
            return cls(
                int(given["epoch"]),
                int(given["batch"]),
                int(given["position"]),
                tuple((int(start), int(stop)) for start, stop in given["waiting"]),
                {int(number): frozenset(map(int, kept)) for number, kept in given["parts"]},
                None if stream is None else StreamMark.from_dict(stream),
                Ledger(**given["ledger"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UsageError(
                f"the state of a loader is damaged: {type(error).__name__}: {error}"
            ) from error

    @property
    def first(self) -> int:
        """The first position that was not delivered."""
        return min(self.waiting[0][0], self.position) if self.waiting else self.position


@dataclass(frozen=True)
class Pieces:
    """What a standing is made of: taken in microseconds, and put together when it is wanted."""

    epoch: int
    batch: int
    """Number of the next batch."""
    position: int
    """From here on nothing was started."""
    spans: Sequence[Span] = ()
    """Positions that were started and not delivered, in any order."""
    held: Sequence[Sequence[Place]] = ()
    """Samples that were made and not delivered: each in order."""
    parts: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """Of positions that the epoch was gone on with in part: what was to come of them."""
    stream: StreamMark | None = None
    ledger: Ledger = field(default_factory=Ledger)
    """Fates so far."""
    samples: int | None = None
    """Of the epoch, where that is known."""

    def standing(self) -> Standing:
        """Return the standing."""
        spans, single = list(self.spans), set[int]()
        parts: dict[int, set[int]] = {}
        made = 0
        for places in self.held:
            near, others = spans_of(places)
            spans += near
            for place in others:
                if isinstance(place, int):
                    single.add(place)
                    continue
                number, part = place
                made += 1
                if number in parts:
                    parts[number].add(part)
                else:
                    parts[number] = {part}
        ledger = Ledger()
        ledger.add(self.ledger)
        ledger.expanded -= made - len(parts)  # whoever goes on makes these anew
        waiting = merged([*spans, *neighbours(sorted(single | parts.keys()))])
        for number, kept in self.parts.items():
            if any(start <= number < stop for start, stop in waiting):
                parts.setdefault(number, set(kept))
        position = self.position
        if not parts:  # what waits right before the rest is no exception
            while waiting and waiting[-1][1] >= position:
                position = min(waiting.pop()[0], position)
        return Standing(
            self.epoch,
            self.batch,
            position,
            tuple(waiting),
            {number: frozenset(kept) for number, kept in parts.items()},
            self.stream,
            ledger,
            self.samples,
        )


def identity(plan: Plan) -> dict[str, Any]:
    """Return what a state is only good for."""
    found = {"pipeline": plan.pipeline.name, "source": plan.names[0], "samples": plan.samples}
    return {**found, "seed": plan.pipeline.options.seed}


def fitting(plan: Plan, state: Any) -> Standing:
    """Return the standing of a state for a loader of this plan to go on from.

    Raises:
        UsageError: it does not fit, and why.
    """
    begin = Standing.from_dict(state)
    mine = identity(plan)
    wrong = [
        f"{name} {state.get(name)!r} (here {mine[name]!r})"
        for name in ("source", "samples", "seed")
        if state.get(name) != mine[name]
    ]
    if wrong:
        raise UsageError(
            f"the state is of other data or another order: {', '.join(wrong)}; go on with the "
            "pipeline that it was taken from, or start anew"
        )
    share = plan.share
    if share is not None:
        if begin.waiting or begin.parts or begin.position % share.size:
            raise UsageError(
                f"the state stands at sample {begin.first} of epoch {begin.epoch}, not between "
                f"batches of {share.size}: {share.world_size} ranks cannot go on from there; go "
                "on with one rank to the epoch's end, or from a state of equal batches"
            )
        begin = replace(begin, batch=begin.position // share.size)
    count = checks.count_samples(plan.stages, plan.pipeline.options.seed, begin.epoch)
    return settled(plan, replace(begin, samples=count))


def settled(plan: Plan, standing: Standing) -> Standing:
    """Return a standing with the end of an epoch said as the start of the next.

    That can be told where the number of its samples is known, which may differ from epoch to
    epoch; else the rest of an epoch may turn out to be empty.
    """
    samples = standing.samples
    if samples is None or standing.waiting or not standing.position:
        return standing
    over = standing.position >= samples
    if plan.share is not None:
        over = plan.share.rounds(samples, standing.batch) == 0
    elif plan.gather is not None and not checks.samples_are_exact(plan.stages):
        over = over or plan.gather.batches(samples - standing.position) == 0
    return Standing(standing.epoch + 1, ledger=standing.ledger) if over else standing
