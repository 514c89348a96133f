"""A planted job, and what would be measured of it: the evidence for a diagnosis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from stoker.analyze.evidence import Evidence, Rate
from stoker.analyze.recorded import computes
from tests.planted.demands import Op
from tests.planted.parts import Batch, Segment, Step
from tests.planted.running import Run
from tests.planted.watch import Watch


@dataclass(frozen=True)
class Job:
    """Everything that runs on the machine.

    Args:
        segments: of the sample section; the first stage is the source.
        batch: how batches are made.
        step: what the consumer does.
        cores: of the machine.
        prefetch_batches: batches in flight.
        prefetch_bytes: bytes in flight.
        others: other processes, each with one thread that repeats its ops for ever.
        sample_bytes: size of a sample after every stage.
        samples: in the one epoch.
        hop_ms: Python time that the engine takes for a hand-over.
        name: of the pipeline.
    """

    segments: Sequence[Segment]
    batch: Batch = field(default_factory=Batch)
    step: Step = field(default_factory=Step)
    cores: int = 2
    prefetch_batches: int = 4
    prefetch_bytes: int = 1 << 30
    others: Sequence[Sequence[Op]] = ()
    sample_bytes: int = 150_528
    samples: int = 10**9
    hop_ms: float = 0.012
    name: str = "planted"

    def measure(self, seconds: float = 8.0, warmup: float = 2.0, seed: int = 0) -> Evidence:
        """Return what would be measured of the job, its loader alone and its step alone.

        Args:
            seconds: virtual time that is measured, in windows of about a second.
            warmup: virtual time before that.
            seed: of all durations and of when counters are read.
        """
        run = Run(self, seed)
        run.start()
        watch = Watch(run, seed)
        windows = list(watch.windows(seconds, warmup))
        loader = replace(self, step=replace(self.step, ops=()))
        return Evidence(
            pipeline=self.name,
            windows=windows,
            host=watch.host(),
            causes=watch.causes(),
            gil_busy=watch.gil_busy(),
            gil_holders=watch.gil_holders(),
            loader_alone=loader.rate(seconds / 2, warmup, seed),
            step_alone=self.step_rate(seconds / 2, seed),
            device_step=not computes(watch.whole().stages[-1]),
        )

    def rate(self, seconds: float = 8.0, warmup: float = 2.0, seed: int = 0) -> Rate:
        """Return the samples/s that the consumer gets."""
        run = Run(self, seed)
        run.start()
        return Watch(run, seed).rate(seconds, warmup)

    def step_rate(self, seconds: float = 4.0, seed: int = 0) -> Rate | None:
        """Return the samples/s that the step takes from one cached batch, or None without one."""
        if not self.step.ops:
            return None
        run = Run(self, seed)
        run.start_step()
        return Watch(run, seed).rate(seconds, 0.5)
