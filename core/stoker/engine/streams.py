"""Reads streams: in order, through a shuffling window, and from the middle of an epoch."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

from stoker.engine.jobs import Chunk
from stoker.engine.runners import ChunkRunner
from stoker.engine.standing import Standing, StreamMark
from stoker.errors import RunError
from stoker.rng import stable_key
from stoker.sample import Origin, Sample, Shard, nbytes
from stoker.stages import StreamSource

Item = TypeVar("Item")


class StreamLog:
    """What a flow knows of the streams that it reads, to be able to say where it stands.

    Args:
        begin: where the flow goes on, or None where it starts with an epoch.
    """

    def __init__(self, begin: Standing | None) -> None:
        self.begin = begin
        self.reread = 0
        """Samples that were read and thrown away, since they had been delivered before."""
        self._starts: dict[int, list[int]] = {}
        self._samples: dict[int, int] = {}
        self._judged: dict[int, tuple[int, int]] = {}
        self._open: dict[int, list[tuple[int, int]]] = {}
        self._shards: dict[int, int] = {}
        if begin is not None and begin.stream is not None:
            self._starts[begin.epoch] = list(begin.stream.starts)
            self._judged[begin.epoch] = begin.stream.judged
            if begin.stream.samples is not None:
                self._samples[begin.epoch] = begin.stream.samples

    def begins(self, epoch: int, shards: Sequence[Shard], before: StreamMark) -> None:
        """Note which shards an epoch has; refuse others than those that it began with.

        Raises:
            RunError: they are others.
        """
        # By their names: data may move to another folder.
        digest = stable_key(*(str(shard).rpartition("/")[2] for shard in shards))
        if before.shards not in (None, digest):
            raise RunError(
                f"the {len(shards)} shards are not those that epoch {epoch} was begun with, so "
                "that what was delivered cannot be told; go on with the same shards, or start anew"
            )
        self._shards[epoch] = digest

    def shard_begins(self, epoch: int, shard: int, number: int) -> None:
        """Note that a shard's first sample is this number of the epoch."""
        starts = self._starts.setdefault(epoch, [])
        if shard == len(starts):
            starts.append(number)

    def ends(self, epoch: int, samples: int) -> None:
        """Note how many samples an epoch has."""
        self._samples[epoch] = samples

    def fails(self, epoch: int, shard: int, number: int) -> None:
        """Note a failure, by its number in its shard: it is not in the ledger yet."""
        self._open.setdefault(epoch, []).append((shard, number))

    def counted(self, epoch: int, failures: int) -> None:
        """Note that the next failures stand in the ledger."""
        if failures:
            noted = self._open[epoch]
            shard, number = noted[failures - 1]
            self._judged[epoch] = (shard, number + 1)
            del noted[:failures]

    def mark(self, epoch: int) -> StreamMark | None:
        """Return what a reader needs to go on in this epoch, None where nothing was read."""
        starts, noted = self._starts.get(epoch), self._open.get(epoch)
        if not starts:
            return None
        judged, retry = self._judged.get(epoch, (0, 0)), noted[0][0] if noted else None
        return StreamMark(
            tuple(starts), self._samples.get(epoch), judged, retry, self._shards.get(epoch)
        )


class Window(Generic[Item]):
    """Items that wait to come out in another order; which one comes is drawn.

    The order depends on the seed and on how many items went in, not on what they are: so
    that a window of numbers tells where the samples of a real one came from.

    Args:
        size: items that it holds.
        seed: of its draws.
    """

    def __init__(self, size: int, seed: int) -> None:
        self.size = size
        self.slots: list[Item] = []
        self._draw = random.Random(seed).random

    def put(self, items: Iterable[Item]) -> Iterator[Item]:
        """Take items in; yield one for each as soon as the window is full."""
        slots, size, draw = self.slots, self.size, self._draw
        for item in items:
            if len(slots) < size:
                slots.append(item)
                continue
            at = int(draw() * size)
            out, slots[at] = slots[at], item
            yield out

    def empty(self) -> Iterator[Item]:
        """Yield what is left."""
        slots, draw = self.slots, self._draw
        while slots:
            at = int(draw() * len(slots))
            slots[at], slots[-1] = slots[-1], slots[at]
            yield slots.pop()


class StreamRunner(ChunkRunner):
    """Takes the next samples of a stream. One worker, so their order is the stream's."""

    stage: StreamSource

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._seed: int = args[-1]
        self._of: tuple[Any, int] | None = None
        self._samples: Iterator[Sample] = iter(())
        self._position = 0
        """Of the next sample, in the order in which they come out."""
        self._lost = 0  # shards that failed, not yet in a chunk's account
        self._window: Window[Sample] | None = None
        self._held = 0

    def __call__(self, chunk: Chunk) -> None:
        samples, flow = chunk.samples, chunk.flow
        try:
            if self._of != (flow, chunk.epoch):
                self._of = (flow, chunk.epoch)
                self._samples = self._begin(chunk)
            ended = not self._pass(chunk, chunk.leg.first)
            for sample in islice(self._samples, chunk.asked):
                samples.append(sample)
            self._position += len(samples)
            ended = ended or len(samples) < chunk.asked
            if chunk.leg.ends_block:
                # A batch counts only when every rank has one of this round.
                ended = ended or not self._pass(chunk, chunk.leg.round_end)
                chunk.incomplete = ended
            if ended:
                flow.stream_ended(chunk.epoch)
        except RunError as ending:
            chunk.error = ending
            chunk.tally.failed += 1
        chunk.tally.quarantined = chunk.lost = self._lost
        self._lost = 0
        chunk.positions = chunk.positions[: len(samples)]
        each = nbytes(samples[0]) if samples else 0
        self._hold(chunk, each)
        tried = len(samples) + chunk.tally.failed + chunk.tally.quarantined
        self.count(chunk, tried, len(samples), each * len(samples))

    def _pass(self, chunk: Chunk, position: int) -> bool:
        """Read on up to a position; return whether the stream goes so far."""
        missing = position - self._position
        passed = sum(1 for _ in islice(self._samples, missing)) if missing > 0 else 0
        self._position += passed
        if chunk.leg.block is None:  # else they are other ranks'
            chunk.flow.stream.reread += passed
        return missing <= passed

    def _hold(self, chunk: Chunk, each: int) -> None:
        """Account for the bytes in the window, by the size of a sample."""
        if self._window is not None and (each or not self._window.slots):
            held = len(self._window.slots) * each
            chunk.flow.hold(held - self._held)
            self._held = held

    # -- the samples of an epoch ---------------------------------------------------

    def _begin(self, chunk: Chunk) -> Iterator[Sample]:
        """Return the samples from the first one on that is wanted, and note which that is."""
        log, epoch, size = chunk.flow.stream, chunk.epoch, self.stage.shuffle_window
        self._window, self._held, self._position = None, 0, 0
        shards = self.stage.shards(epoch, self.rng.move(epoch, 0))
        begin = log.begin if log.begin is not None and log.begin.epoch == epoch else None
        mark = begin.stream if begin is not None else None
        if begin is None or mark is None:
            begin, mark = Standing(epoch), StreamMark()
        log.begins(epoch, shards, mark)
        first = begin.first
        if size <= 1:
            self._position = first
            return self._from(chunk, shards, mark, first)
        seed = stable_key(self._seed, self.name, "window", epoch)
        window = Window[Sample](size, seed)
        self._window = window
        places, taken = _replayed(window, mark, first)
        self._position = first
        return self._through(chunk, shards, mark, window, places, taken)

    def _through(
        self,
        chunk: Chunk,
        shards: Sequence[Shard],
        mark: StreamMark,
        window: Window[Sample],
        places: dict[int, int],
        taken: int,
    ) -> Iterator[Sample]:
        """Yield samples through the window, which is filled again as it was.

        Args:
            chunk: the first one, for its flow.
            shards: of the epoch.
            mark: where shards begin.
            window: empty slots, and a generator that stands where it stood.
            places: the slot of each number that is in the window.
            taken: how many numbers went into the window before.
        """
        oldest = min(places, default=taken)
        samples = self._from(chunk, shards, mark, oldest)
        window.slots += [{} for _ in places]
        for number, sample in enumerate(islice(samples, taken - oldest), oldest):
            if number in places:
                window.slots[places[number]] = sample
            else:
                chunk.flow.stream.reread += 1
        yield from window.put(samples)
        yield from window.empty()

    def _from(
        self, chunk: Chunk, shards: Sequence[Shard], mark: StreamMark, first: int
    ) -> Iterator[Sample]:
        """Yield samples from number `first` on, reading from its shard's start."""
        log, epoch = chunk.flow.stream, chunk.epoch
        begun = max(bisect_right(mark.starts, first) - 1, 0)
        begun = begun if mark.retry is None else min(begun, mark.retry)
        number = mark.starts[begun]
        for index in range(begun, len(shards)):
            log.shard_begins(epoch, index, number)
            failed = 0
            for sample in self._shard(shards[index]):
                if isinstance(sample, Exception):
                    if (index, failed) >= mark.judged:
                        log.fails(epoch, index, failed)
                        self._fails(shards[index], sample, epoch)
                    failed += 1
                    continue
                number += 1
                if number > first:
                    yield sample
                else:
                    log.reread += 1
        log.ends(epoch, number)

    def _shard(self, shard: Shard) -> Iterator[Sample | Exception]:
        """Yield a shard's samples, and the error that keeps what follows from being had."""
        try:
            yield from self.function(shard)
        except Exception as error:
            yield error

    def _fails(self, shard: Shard, error: Exception, epoch: int) -> None:
        """Judge an error, which counts as one sample."""
        ending = self.failures.judge(self.name, error, Origin(shard=str(shard)), epoch)
        if ending is not None:
            raise ending from error
        self.meter.failures += 1
        self._lost += 1


def _replayed(window: Window[Any], mark: StreamMark, outputs: int) -> tuple[dict[int, int], int]:
    """Let numbers go through a window until so many came out; return those still in it.

    Returns:
        the slot of each number in the window, and how many went in.
    """
    numbers: Window[int] = window
    count = 0
    if outputs:
        whole = mark.samples
        entered = range(outputs + window.size) if whole is None else range(whole)
        came = numbers.put(entered)
        count = sum(1 for _ in islice(came, outputs))
        if count < outputs:
            for _ in islice(numbers.empty(), outputs - count):
                count += 1
    places = {number: slot for slot, number in enumerate(numbers.slots)}
    taken = outputs + window.size if outputs else 0
    if mark.samples is not None:
        taken = min(taken, mark.samples)
    window.slots.clear()
    return places, taken
