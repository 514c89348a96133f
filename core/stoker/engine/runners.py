"""Runs one stage over one hand-over: metered, with failures and drops accounted for.

A runner belongs to one worker. Stages run one after another over a whole chunk,
so that two clock reads serve all its samples; slow stages come in chunks of
one, which then pass through a segment sample by sample, warm in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns, thread_time_ns
from typing import Any

from stoker.engine.failures import Failures
from stoker.engine.jobs import BatchJob, Chunk, Job
from stoker.measure.meter import Meter
from stoker.rng import Rng
from stoker.sample import Origin, Sample, nbytes, origin_of
from stoker.stages import Map, Mix, Source, Stage

_FAILED: Any = object()


class Runner:
    """One opened stage in one worker. Called with each job; errors end up in the job."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        function: Callable[..., Any],
        meter: Meter,
        failures: Failures,
        seed: int,
    ) -> None:
        self.stage, self.name, self.function = stage, name, function
        self.meter, self.failures = meter, failures
        self.rng = Rng(seed, name)

    def count(self, job: Job, items: int, made: int, size: int) -> None:
        """Meter one job: since the stage before it ended, or the worker took the job."""
        wall_ns, cpu_ns = perf_counter_ns(), thread_time_ns()
        spent = wall_ns - job.wall_ns
        self.meter.add(items, made, spent, cpu_ns - job.cpu_ns, size)
        job.work_ns += spent
        job.wall_ns, job.cpu_ns = wall_ns, cpu_ns


class ChunkRunner(Runner):
    """Runs a stage over the samples of a chunk."""

    def __call__(self, chunk: Chunk) -> None:
        inputs = self.inputs(chunk)
        outputs: list[Any] = []
        ending = None
        while len(outputs) < len(inputs):
            try:
                self.each(chunk, inputs, len(outputs), outputs)
            except Exception as error:
                ending = self.failed(chunk, inputs[len(outputs)], error)
                if ending is not None:
                    break
                outputs.append(_FAILED)
        tried = len(outputs) + (ending is not None)
        if ending is not None:
            self.cut(chunk, len(outputs), ending)
        chunk.samples = outputs
        self.settle(chunk, inputs)
        # One sample stands for its chunk: measuring each would cost more than moving it.
        size = nbytes(chunk.samples[0]) * len(chunk.samples) if chunk.samples else 0
        self.count(chunk, tried, len(chunk.samples), size)

    def inputs(self, chunk: Chunk) -> Sequence[Any]:
        """Return what the stage is called with."""
        return chunk.samples

    def each(self, chunk: Chunk, inputs: Sequence[Any], start: int, outputs: list[Any]) -> None:
        """Append one output for each input from `start` on."""
        move, rng, function, append = self.rng.move, self.rng, self.function, outputs.append
        epoch, positions = chunk.epoch, chunk.positions
        if start:
            inputs, positions = inputs[start:], positions[start:]
        if chunk.parts is None:
            for sample, position in zip(inputs, positions, strict=False):
                move(epoch, position)
                append(function(sample, rng))
        else:
            for sample, position, part in zip(inputs, positions, chunk.parts[start:], strict=True):
                move(epoch, position, part)
                append(function(sample, rng))

    def settle(self, chunk: Chunk, inputs: Sequence[Any]) -> None:
        """Take dropped and failed samples out, and refuse what is no sample."""
        outputs: list[Any] = chunk.samples
        first = outputs[0] if outputs else None
        if not (isinstance(first, dict) or first is None or first is _FAILED):
            self.refuse(chunk, inputs, 0, _no_sample(first))
            outputs = chunk.samples
        if None in outputs and isinstance(self.stage, Map) and self.stage.drops:
            chunk.tally.filtered += outputs.count(None)
        elif None in outputs:
            for index in [i for i, out in enumerate(outputs) if out is None]:
                if not self.refuse(chunk, inputs, index, _forgotten()):
                    break
            outputs = chunk.samples
        if None in outputs or _FAILED in outputs:
            kept = [i for i, out in enumerate(outputs) if out is not None and out is not _FAILED]
            chunk.keep(kept)

    def refuse(self, chunk: Chunk, inputs: Sequence[Any], index: int, error: Exception) -> bool:
        """Let the sample at an index fail after the fact; return whether the run goes on."""
        chunk.samples[index] = _FAILED
        ending = self.failed(chunk, inputs[index], error)
        if ending is not None:
            lost = [out for out in chunk.samples[index + 1 :] if out is not None]
            chunk.tally.unused += len(lost)
            chunk.samples = chunk.samples[:index]
            chunk.error = ending
        return ending is None

    def failed(self, chunk: Chunk, item: Any, error: Exception) -> Any:
        """Judge a failure; return what ends the run, or None where it goes on."""
        ending = self.failures.judge(self.name, error, self.origin(item), chunk.epoch)
        if ending is None:
            self.meter.failures += 1
            chunk.tally.quarantined += 1
        else:
            chunk.tally.failed += 1
        return ending

    def cut(self, chunk: Chunk, index: int, ending: Any) -> None:
        """End the chunk before `index`, whose sample ends the run."""
        chunk.tally.unused += len(chunk.samples) - index - 1
        chunk.error = ending

    def origin(self, item: Any) -> Origin:
        """Return where an input came from."""
        return origin_of(item)


class ReadRunner(ChunkRunner):
    """Reads the addresses of a chunk."""

    stage: Source

    def inputs(self, chunk: Chunk) -> Sequence[Any]:
        return chunk.addresses

    def each(self, chunk: Chunk, inputs: Sequence[Any], start: int, outputs: list[Any]) -> None:
        function, append = self.function, outputs.append
        for address in inputs[start:] if start else inputs:
            append(function(address))

    def cut(self, chunk: Chunk, index: int, ending: Any) -> None:
        chunk.error = ending  # what was never read has no fate

    def origin(self, item: Any) -> Origin:
        return self.stage.origin(item)


class ExpandRunner(ChunkRunner):
    """Makes many samples of each."""

    def each(self, chunk: Chunk, inputs: Sequence[Any], start: int, outputs: list[Any]) -> None:
        parts = chunk.parts or [0] * len(inputs)
        for index in range(start, len(inputs)):
            rng = self.rng.move(chunk.epoch, chunk.positions[index], parts[index])
            outputs.append(list(self.function(inputs[index], rng)))

    def settle(self, chunk: Chunk, inputs: Sequence[Any]) -> None:
        groups: list[Any] = chunk.samples
        samples: list[Sample] = []
        positions: list[int] = []
        parts: list[int] = []
        old = chunk.parts or [0] * len(groups)
        for index, group in enumerate(groups):
            if group is _FAILED:
                continue
            if group:
                chunk.tally.expanded += len(group) - 1
            else:
                chunk.tally.filtered += 1
            samples += group
            positions += [chunk.positions[index]] * len(group)
            parts += [old[index] << 20 | number for number in range(len(group))]
        chunk.samples, chunk.positions, chunk.parts = samples, positions, parts


class MixRunner(ChunkRunner):
    """Also reads other samples of the epoch and takes them through the stages upstream."""

    stage: Mix

    def __init__(
        self,
        stage: Stage,
        name: str,
        function: Callable[..., Any],
        meter: Meter,
        failures: Failures,
        seed: int,
        upstream: Sequence[tuple[str, Any]],
    ) -> None:
        super().__init__(stage, name, function, meter, failures, seed)
        self._draw = Rng(seed, f"{self.name}/partners")
        (_, self._read), *maps = upstream
        self._maps = [(function, Rng(seed, name)) for name, function in maps]

    def each(self, chunk: Chunk, inputs: Sequence[Any], start: int, outputs: list[Any]) -> None:
        epoch, population = chunk.epoch, len(chunk.order)
        for index in range(start, len(inputs)):
            position = chunk.positions[index]
            drawn = self.stage.partners(population, self._draw.move(epoch, position))
            others = [self._other(chunk, int(place)) for place in drawn]
            there = [other for other in others if other is not None]
            rng = self.rng.move(epoch, position)
            outputs.append(self.function(inputs[index], there, rng))

    def _other(self, chunk: Chunk, position: int) -> Sample | None:
        try:
            sample: Sample | None = self._read(chunk.order[position])
            for function, rng in self._maps:
                if sample is not None:
                    sample = function(sample, rng.move(chunk.epoch, position))
        except Exception:
            # It fails at its own place in the epoch and is judged there.
            if self.failures.policy == "raise":
                raise
            return None
        return sample


class BatchRunner(Runner):
    """Runs a stage over one batch."""

    def __call__(self, job: BatchJob) -> None:
        if not job.count:  # an epoch's end, or a batch that failed upstream
            return
        count = job.count
        try:
            self.work(job)
            job.measured = nbytes(job.batch)
        except Exception as error:
            job.error = self.failures.judge(self.name, error, job.origin(), job.epoch, count)
            if job.error is None:
                self.meter.failures += count
                job.tally.quarantined += count
            else:
                job.tally.failed += count
            job.batch, job.samples, job.count, job.measured = None, [], 0, 0
        self.count(job, count, job.count, job.measured)

    def work(self, job: BatchJob) -> None:
        """Change the job's batch."""
        job.batch = self.function(job.batch, self.rng.move(job.epoch, job.number))


class AssembleRunner(BatchRunner):
    """Makes a batch of a job's samples."""

    def work(self, job: BatchJob) -> None:
        job.batch = self.function(job.samples, _plain)
        job.release_samples()


def _no_sample(given: Any) -> TypeError:
    return TypeError(
        f"must return the sample (a dict), returned {type(given).__name__}; "
        "to change one field, use augment.Apply(function, field=...)"
    )


def _forgotten() -> TypeError:
    return TypeError("returned None: return the sample, or declare drops = True to filter")


def _plain(shape: tuple[int, ...], dtype: Any) -> Any:
    import torch

    return torch.empty(shape, dtype=dtype)
