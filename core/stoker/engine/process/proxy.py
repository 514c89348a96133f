"""A worker's thread in the parent: has a child do its jobs, and does them again if it dies.

A job whose child died is done once more by a fresh one, sample by sample, so that a
sample that kills is told from those that were merely near it: it fails like any other
failing sample, under the same policy. What the dead child had done counts for nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from stoker.engine.failures import Failures
from stoker.engine.jobs import BatchJob, Chunk, Job
from stoker.engine.process.attendant import Attendant, LostError, StoppedError
from stoker.engine.process.faults import Fault
from stoker.engine.process.work import Answer, BatchWork, ChunkWork, piece, put_into
from stoker.engine.segment import give_up
from stoker.errors import RunError
from stoker.measure.meter import Meter
from stoker.sample import Origin, origin_of
from stoker.stages import Mix, PooledStage, Source

# Quicker jobs are sent ahead: there and back takes 0.2 ms, and more where the GIL is busy.
QUICK_NS = 20_000_000


class Proxy:
    """Does a worker's jobs in a child of its own. Called with each job.

    Args:
        stages: of the segment, with their names.
        meters: the worker's, by stage.
        failures: the policy for failing samples.
        attendant: keeps the child.
    """

    def __init__(
        self,
        stages: Sequence[tuple[str, PooledStage]],
        meters: dict[str, Meter],
        failures: Failures,
        attendant: Attendant,
    ) -> None:
        self._stages, self._meters, self._failures = stages, meters, failures
        self._attendant = attendant
        first = stages[0][1]
        self._source = first if isinstance(first, Source) else None
        self._mixes = any(isinstance(stage, Mix) for _, stage in stages)
        self._sent: tuple[int, Any] = (0, None)
        """The child that has an epoch's order, and which."""
        self._told_refused = False
        self._begun: list[Job] = []
        """Jobs that the child has, in order, and has not answered yet."""
        self._loss: LostError | None = None
        """What became of the child that has them, where that is known before they are asked for."""
        self.is_quick = False
        """The last job took so little time that the way to and from the child matters."""

    # -- ahead ---------------------------------------------------------------------

    def begin(self, job: Job) -> bool:
        """Let the child have a job before its turn; return whether it has it.

        Whatever goes wrong here does so again when it is the job's turn.
        """
        if self._begun and self._begun[0] is job:
            return True
        work = self._work_of(job)
        if work is None:
            return False
        try:
            if not self._attendant.tell(self._complete(work, job), ahead=bool(self._begun)):
                return False
        except LostError as loss:
            self._loss = loss if loss.is_death and self._begun else None
            return False
        except (StoppedError, RunError):
            return False
        self._begun.append(job)
        return True

    def forget(self, job: Job | None = None) -> None:
        """Wait until the child is through with all that it has (or one job), for nothing."""
        while self._begun and job in (None, self._begun[0]):
            self._begun.pop(0)
            try:
                self._attendant.hear()
            except LostError as loss:
                if loss.is_death:
                    self._begun.clear()
            except StoppedError:
                self._begun.clear()

    def _work_of(self, job: Job) -> ChunkWork | BatchWork | None:
        """Return what a child needs to do a job, None where there is nothing to do."""
        if isinstance(job, Chunk):
            return piece(job, self._source is not None) if self._size(job) else None
        assert isinstance(job, BatchJob)
        if not job.count:
            return None
        return BatchWork(job.epoch, job.number, job.samples, job.batch, job.count, job.origin())

    def _size(self, chunk: Chunk) -> int:
        return len(chunk.addresses if self._source is not None else chunk.samples)

    # -- work ----------------------------------------------------------------------

    def __call__(self, job: Job) -> None:
        """Do a job; errors end up in it."""
        work = self._work_of(job)
        if work is None:
            return
        before = job.work_ns
        try:
            if isinstance(job, Chunk):
                self._do_chunk(job, work)
            elif isinstance(job, BatchJob):
                self._do_batch(job, work)
        except StoppedError:
            self._begun.clear()  # the child is gone, or will be; what the job holds is unused
        except RunError as error:  # no child could be started
            give_up(job, error)
        self.is_quick = job.work_ns - before < QUICK_NS

    def _do_chunk(self, chunk: Chunk, work: ChunkWork | BatchWork) -> None:
        try:
            answers = [self._ask(work, chunk)]
        except LostError as loss:
            count = self._size(chunk)
            self._tell(loss, count)
            answers = self._one_by_one(chunk, count)
        put_into(chunk, answers)

    def _one_by_one(self, chunk: Chunk, count: int) -> list[Answer]:
        """Do a chunk's samples again, each by itself."""
        answers: list[Answer] = []
        done = 0
        for index in range(count):
            try:
                answers.append(self._ask(piece(chunk, self._source is not None, index), chunk))
            except LostError as loss:
                self._fail(chunk, loss, self._origin(chunk, index), 1)
            except StoppedError:
                break
            except RunError as error:
                chunk.error = error
                break
            done = index + 1
            if chunk.error is not None or (answers and answers[-1].fault is not None):
                break
        if self._source is None:  # what was never read has no fate
            chunk.tally.unused += count - done
        return answers

    def _do_batch(self, job: BatchJob, work: ChunkWork | BatchWork) -> None:
        try:
            try:
                answer = self._ask(work, job)
            except LostError as loss:
                self._tell(loss, job.count)
                answer = self._ask(work, job)
        except LostError as loss:
            self._fail(job, loss, job.origin(), job.count)
            job.batch, job.samples, job.count, job.measured = None, [], 0, 0
        else:
            put_into(job, [answer])

    def _ask(self, work: ChunkWork | BatchWork, job: Job) -> Answer:
        """Have the child do some work, and account for what came of it.

        Raises:
            LostError: it died, said nothing, or could not be told or tell.
            StoppedError: the segment is being stopped.
            RunError: no child could be started.
        """
        try:
            said = self._attended(work, job)
        except LostError as loss:
            self._after(loss)
            if not loss.was_idle:  # else it died while it waited: nobody's fault
                raise
            said = self._attendant.ask(self._complete(work, job))
        failed = sum(failed.samples for failed in said.failed)
        many = isinstance(work, ChunkWork) and len(work.positions) > 1
        if failed and many and failed > self._failures.left:
            # The run ends within this chunk; one by one it does so at the right sample.
            self.forget()
            raise LostError("ends the run", 0, Fault("too many samples failed", "", None))
        self._hear(said, job)
        return said

    def _attended(self, work: ChunkWork | BatchWork, job: Job) -> Answer:
        """Return the child's answer, whether it has the job already or not."""
        loss, self._loss = self._loss, None
        if loss is not None:
            raise loss
        while self._begun and self._begun[0] is not job:  # of a flow that was left
            self.forget(self._begun[0])
        if self._begun:
            self._begun.pop(0)
            return self._attendant.hear()
        return self._attendant.ask(self._complete(work, job))

    def _after(self, loss: LostError) -> None:
        """See that the child's next answer is to the next question."""
        if loss.is_death:
            self._begun.clear()  # they died with it, and will be asked for again
        self.forget()

    def _complete(self, work: ChunkWork | BatchWork, job: Job) -> ChunkWork | BatchWork:
        """Give a chunk the epoch's order along, where its stages need it and have it not yet."""
        if not (self._mixes and isinstance(work, ChunkWork) and isinstance(job, Chunk)):
            return work
        if not self._begun:  # else only the child that has those will do
            self._attendant.ready()
        number, order = self._sent
        if number == self._attendant.generation and order is job.order:
            return work
        self._sent = self._attendant.generation, job.order
        return work._replace(order=job.order)

    # -- what came of it -----------------------------------------------------------

    def _hear(self, said: Answer, job: Job) -> None:
        """Count what the child counted, and judge what failed there."""
        for name, counted in said.counted.items():
            counted.add_to(self._meters[name])
        self._judge(said, job)
        refused = self._attendant.refused
        if refused and not self._told_refused:
            self._told_refused = True
            warnings.warn(
                f"arrays of {self._attendant.names} go through a pipe, which is slower: shared "
                f"memory cannot be had: {refused}",
                RuntimeWarning,
                stacklevel=2,
            )

    def _judge(self, said: Answer, job: Job) -> None:
        """Judge the samples that failed in the child and were left out there."""
        left = sum(failed.samples for failed in said.failed)
        for stage, fault, samples in said.failed:
            ending = self._failures.judge(stage, fault.error(), Origin(), job.epoch, samples)
            if ending is not None:  # the rest failed, too, but after the end
                job.error = job.error or ending
                said.tally.quarantined -= left
                said.tally.failed += samples
                said.tally.unused += left - samples
                break
            left -= samples

    def _fail(self, job: Job, loss: LostError, place: Origin, samples: int) -> None:
        """Let samples fail that were lost twice."""
        name = self._stages[loss.stage][0]
        ending = self._failures.judge(name, loss.as_failure(name, place), place, job.epoch, samples)
        # The child that knew how far they came is dead: up to the stage that it was in.
        for before, _ in self._stages[: loss.stage]:
            self._meters[before].items_in += samples
            self._meters[before].items_out += samples
        self._meters[name].items_in += samples
        if ending is None:
            self._meters[name].failures += samples
            job.tally.quarantined += samples
        else:
            job.tally.failed += samples
            job.error = job.error or ending

    def _tell(self, loss: LostError, count: int) -> None:
        """Warn at once that a child was lost."""
        if not loss.is_death:
            return
        many = "its sample is" if count == 1 else f"its {count} samples are"
        stack = f". It was here:\n{loss.cause.trace}" if loss.cause else ""
        warnings.warn(
            f"a worker of {self._attendant.names} {loss.reason} in {self._stages[loss.stage][0]}; "
            f"{many} done again{stack}",
            RuntimeWarning,
            stacklevel=2,
        )

    def _origin(self, chunk: Chunk, index: int) -> Origin:
        if self._source is not None:
            return self._source.origin(chunk.addresses[index])
        return origin_of(chunk.samples[index])
