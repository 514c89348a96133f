"""What a thread asks of its child, and what the child answers, taken off and put into jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stoker.engine.course import Leg
from stoker.engine.jobs import BatchJob, Chunk, Job
from stoker.engine.ledger import Ledger
from stoker.engine.process.faults import Fault
from stoker.measure.meter import Meter
from stoker.sample import Origin

Nobody: Any = None
"""The flow of a job in a child: it is known to the parent only."""


class ChunkWork(NamedTuple):
    """A chunk, or a part of one."""

    epoch: int
    positions: Sequence[int]
    parts: list[int] | None
    addresses: Sequence[Any]
    samples: list[Any]
    order: Sequence[Any] | None
    """All addresses of the epoch, where the child does not have them yet."""

    def job(self, order: Sequence[Any]) -> Chunk:
        """Return it as a job, in the child."""
        chunk = Chunk(Nobody, 0, self.epoch, (), Leg(0, 0))
        chunk.order, chunk.addresses, chunk.asked = order, self.addresses, len(self.positions)
        chunk.positions, chunk.parts, chunk.samples = self.positions, self.parts, self.samples
        return chunk


class BatchWork(NamedTuple):
    """A batch, or the samples to make one of."""

    epoch: int
    number: int
    samples: list[Any]
    batch: Any
    size: int
    origin: Origin

    def job(self) -> BatchJob:
        """Return it as a job, in the child."""
        job = BatchJob(Nobody, 0, self.epoch, self.number, self.samples)
        job.batch, job.count = self.batch, self.size
        job._origin = self.origin
        return job


class Failed(NamedTuple):
    """Samples that failed and were left out, for the parent to judge."""

    stage: str
    fault: Fault
    samples: int


class Counted(NamedTuple):
    """What a stage's meter counted."""

    chunks: list[tuple[int, int, int, int, int]]
    """The arguments of `Meter.add`, call by call."""
    failures: int

    def add_to(self, meter: Meter) -> None:
        """Count it in the parent."""
        for chunk in self.chunks:
            meter.add(*chunk)
        meter.failures += self.failures


class Answer(NamedTuple):
    """What came of some work."""

    samples: list[Any]
    positions: Sequence[int]
    parts: list[int] | None
    batch: Any
    size: int
    measured: int
    has_samples: bool
    """A batch still needs the samples that it was to be made of."""
    tally: Ledger
    fault: Fault | None
    failed: list[Failed]
    counted: Mapping[str, Counted]
    work_ns: int
    cpu_ns: int
    """CPU time of the child's process so far."""
    refused: str = ""
    """Why arrays cannot go through shared memory, "" where they can."""


class Ready(NamedTuple):
    """A child says that its stages are open."""


class Broken(NamedTuple):
    """A child says what it could not do."""

    what: str
    fault: Fault
    stage: int = 0
    """Number of the stage at fault."""


class End(NamedTuple):
    """The parent asks a child to end."""


def piece(chunk: Chunk, reads: bool, index: int | None = None) -> ChunkWork:
    """Return the work of a chunk, or of one of its samples."""
    at = slice(None) if index is None else slice(index, index + 1)
    return ChunkWork(
        chunk.epoch,
        chunk.positions[at],
        chunk.parts[at] if chunk.parts is not None else None,
        chunk.addresses[at] if reads else (),
        chunk.samples[at],
        None,
    )


def answer_of(job: Job) -> dict[str, Any]:
    """Return the part of an answer that is read off a job."""
    told: dict[str, Any] = {
        "samples": [],
        "positions": (),
        "parts": None,
        "batch": None,
        "size": 0,
        "measured": 0,
        "has_samples": False,
        "tally": job.tally,
        "work_ns": job.work_ns,
        "fault": Fault.of(job.error) if job.error is not None else None,
    }
    if isinstance(job, Chunk):
        told |= {"samples": job.samples, "positions": job.positions, "parts": job.parts}
    elif isinstance(job, BatchJob):
        told |= {"batch": job.batch, "size": job.count, "measured": job.measured}
        told["has_samples"] = bool(job.samples)
    return told


def put_into(job: Job, answers: Sequence[Answer]) -> None:
    """Put what came back into the job, which may have been done in parts."""
    for answer in answers:
        job.tally.add(answer.tally)
        job.work_ns += answer.work_ns
        if answer.fault is not None and job.error is None:
            job.error = answer.fault.error()
    if isinstance(job, Chunk):
        job.samples = [sample for answer in answers for sample in answer.samples]
        job.positions = [place for answer in answers for place in answer.positions]
        if any(answer.parts is not None for answer in answers):
            parts = [answer.parts or [0] * len(answer.samples) for answer in answers]
            job.parts = [number for some in parts for number in some]
    elif isinstance(job, BatchJob):
        (answer,) = answers
        if not answer.has_samples and job.samples:
            job.release_samples()
        job.batch, job.count, job.measured = answer.batch, answer.size, answer.measured
        if not job.count:
            job.samples = []
