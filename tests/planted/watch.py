"""Watches a run of a planted job: windows, host, samples of its threads, its GIL."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import cast

from stoker.analyze.evidence import Cause, HostUse, Rate, rate_of
from stoker.measure.snapshot import Report, report_between
from tests.planted.running import Run

WINDOW_S = 1.0
SAMPLING_S = 0.02


class Watch:
    """What an analysis sees of a run, without being seen.

    Args:
        run: started, at its cold start.
        seed: of when counters are read and threads are sampled.
    """

    def __init__(self, run: Run, seed: int) -> None:
        self._run, self._machine = run, run.machine
        self._draw = random.Random(f"watch {seed}")
        self._began_ns = 0
        self._threads = {part.index: part.threads for part in run.segments}
        self._threads[run.facts[-1].segment] = [run.consumer]
        self._samples: dict[int, Counter[Cause]] = {index: Counter() for index in self._threads}
        self._holders: Counter[str] = Counter()
        self._before: tuple[int, ...] = ()

    def windows(self, seconds: float, warmup: float) -> Iterator[Report]:
        """Yield a report of each window of about a second after the warm-up."""
        run, machine, draw = self._run, self._machine, self._draw
        machine.run_until(machine.now_ns + round(warmup * 1e9))
        self._began_ns, self._before = machine.now_ns, self._counters()
        self._look()
        end_ns = machine.now_ns + round(seconds * 1e9)
        before = self._first = run.snapshot()
        while machine.now_ns < end_ns:
            length = round(draw.uniform(0.9, 1.1) * WINDOW_S * 1e9)
            machine.run_until(machine.now_ns + length)
            after = run.snapshot()
            yield report_between(run.job.name, run.facts, before, after, run.ledger.to_dict())
            before = after

    def whole(self) -> Report:
        """Return a report of all that happened since the warm-up."""
        run = self._run
        return report_between(run.job.name, run.facts, self._first, run.snapshot(), {})

    def rate(self, seconds: float, warmup: float) -> Rate:
        """Return the samples/s that the consumer gets."""
        windows = list(self.windows(seconds, warmup))
        rates = [window.stages[-1].items_per_s for window in windows]
        return rate_of(rates, [window.window_s for window in windows])

    def host(self) -> HostUse:
        """Return who used the cores since the warm-up."""
        own, others, contended, _ = self._shares()
        return HostUse(float(self._machine.cores), own, others, 0.0, contended)

    def gil_busy(self) -> float:
        """Return the share of the time since the warm-up that the GIL was held."""
        return self._shares()[3]

    def gil_holders(self) -> Mapping[str, float]:
        """Return each stage's share of the time that the GIL was held in stages."""
        held = self._holders.total()
        return {stage: count / held for stage, count in self._holders.items()}

    def causes(self) -> Mapping[int, Mapping[Cause, float]]:
        """Return what each segment's workers, and the consumer, were found doing in stages."""
        return {
            index: {cause: number / count.total() for cause, number in count.items()}
            for index, count in self._samples.items()
            if count
        }

    def _counters(self) -> tuple[int, ...]:
        run, machine = self._run, self._machine
        others = sum(process.cpu_ns for process in run.neighbours)
        held_ns = machine.gil_held_ns(run.process)
        return run.process.cpu_ns, others, machine.contended_ns, held_ns

    def _shares(self) -> tuple[float, ...]:
        elapsed = self._machine.now_ns - self._began_ns
        pairs = zip(self._before, self._counters(), strict=True)
        return tuple((now - then) / elapsed for then, now in pairs)

    def _look(self) -> None:
        for segment, threads in self._threads.items():
            for thread in threads:
                if not thread.place:
                    continue
                cause = "running" if thread.state == "ready" else thread.state
                self._samples[segment][cast("Cause", cause)] += 1
                if thread.process.gil.holder is thread:
                    self._holders[thread.place] += 1
        pause_ns = round(self._draw.uniform(0.5, 1.5) * SAMPLING_S * 1e9)
        self._machine.at(self._machine.now_ns + pause_ns, self._look)
