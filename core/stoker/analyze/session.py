"""Measures a pipeline for an analysis: as it is, the loader alone, the step alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from stoker.analyze.diagnose import diagnose
from stoker.analyze.diagnosis import Diagnosis
from stoker.analyze.evidence import Cause, Evidence, HostUse, Rate, rate_of
from stoker.analyze.recorded import computes, report_from
from stoker.analyze.sampler import Sampled, Sampler, Thread
from stoker.engine.forecast import Forecast, forecast
from stoker.engine.plan import Plan, make_plan
from stoker.loader import Loader
from stoker.measure.snapshot import Report
from stoker.measure.usage import Usage, UsageMeter
from stoker.pipeline import Pipeline
from stoker.run.evaluation import open_step
from stoker.run.recorder import Recorder
from stoker.session import StepSession

Tell = Callable[[str, Report | None], None]
"""Hears what is being measured, and each window."""

# Parts of the time; the rest is the warm-up, which ends early where it is steady.
AS_IS, LOADER_ALONE, STEP_ALONE, WARM_UP = 0.55, 0.2, 0.1, 0.15
# More epochs than an analysis will ever see.
_ENDLESS = 1_000_000_000


@dataclass(frozen=True)
class Analysis:
    """An analysis with all that it rests on."""

    plan: Plan
    evidence: Evidence
    diagnosis: Diagnosis
    whole: Report
    """The job as it is, over all windows at once."""
    seconds: float


def analyze(pipeline: Pipeline, seconds: float = 10.0, tell: Tell | None = None) -> Analysis:
    """Measure a pipeline for about `seconds` and say what holds it back.

    A step runs as it would (a training step trains a model that is thrown away); without one
    the loader alone is measured.

    Raises:
        PlanError: all that is wrong with the pipeline, at once.
        RunError: an error inside a stage.
    """
    hear = tell or (lambda phase, report: None)
    plan = make_plan(
        pipeline.with_options(epochs=_ENDLESS, evaluate=None, max_steps=None, max_time=None)
    )
    predicted = forecast(plan)
    with ExitStack() as stack:
        # The helper looks for the GIL while no worker takes it.
        sampler = stack.enter_context(Sampler())
        session = stack.enter_context(open_step(plan)) if plan.step is not None else None
        loader = stack.enter_context(Loader(plan))
        measured = _Measured(loader, session, sampler, hear, predicted)
        batches = measured.batches()
        measured.warm_up(batches, WARM_UP * seconds)
        measured.as_is(batches, AS_IS * seconds)
        loader_alone = step_alone = None
        if session is not None:
            loader_alone = measured.loader_alone(batches, LOADER_ALONE * seconds)
            loader.close()
            step_alone = measured.step_alone(STEP_ALONE * seconds)
    evidence = measured.evidence(loader_alone, step_alone)
    return Analysis(plan, evidence, diagnose(evidence), measured.whole, seconds)


class _Measured:
    """The phases of one analysis, and what came of them."""

    def __init__(
        self,
        loader: Loader,
        session: StepSession | None,
        sampler: Sampler,
        hear: Tell,
        predicted: Forecast | None,
    ) -> None:
        self._loader, self._session, self._sampler, self._hear = loader, session, sampler, hear
        self._predicted = predicted
        self._windows: list[Report] = []
        self._sampled = Sampled({}, {}, None)
        self._usage: Usage | None = None
        self._kept: list[Any] = []
        self.whole: Report

    def batches(self) -> Iterator[Any]:
        """Yield batches (or samples) without end."""
        while True:
            came = False
            for batch in self._loader:
                came = True
                yield batch
            if not came:
                return

    def warm_up(self, batches: Iterator[Any], seconds: float) -> None:
        """Run until caches are warm and the buffers are as full as they get."""
        self._hear("warming up", None)
        deadline = time.perf_counter() + seconds
        for batch in batches:
            self._consume(batch)
            if len(self._kept) < 2:
                self._kept.append(batch)
            if time.perf_counter() > deadline:
                return

    def as_is(self, batches: Iterator[Any], seconds: float) -> None:
        """Run the job as it is, in windows."""
        self._hear("the job as it is", None)
        self._sampler.watch(self._threads())
        usage = UsageMeter()
        before = self._loader.snapshot()

        def window(record: dict[str, Any]) -> None:
            report = report_from(record)
            self._windows.append(report)
            self._hear("the job as it is", report)

        deadline = time.perf_counter() + seconds
        with Recorder(self._loader, dict, window, min(1.0, max(seconds / 5, 0.1))):
            for batch in batches:
                self._consume(batch)
                if time.perf_counter() > deadline:
                    break
        self.whole = self._loader.report_between(before, self._loader.snapshot())
        self._usage = usage.read()
        self._sampled = self._sampler.report()
        longest = max((report.window_s for report in self._windows), default=0.0)
        self._windows = [r for r in self._windows if r.window_s > 0.5 * longest]

    def loader_alone(self, batches: Iterator[Any], seconds: float) -> Rate:
        """Return what the loader delivers to a consumer that does nothing."""
        self._hear("the loader alone", None)
        ready = self._loader.plan.pipeline.options.prefetch_batches + 1
        for _, _ in zip(range(ready), batches, strict=False):
            pass  # these were ready before
        return _timed(batches, seconds, lambda: self._loader.ledger.delivered)

    def step_alone(self, seconds: float) -> Rate | None:
        """Return what the step takes of batches that are already there."""
        self._hear("the step alone", None)
        if self._session is None or not self._kept:
            return None
        taken = 0

        def step() -> Iterator[None]:
            nonlocal taken
            assert self._session is not None
            for batch in cycle(self._kept):
                taken += self._session(batch).samples
                yield

        return _timed(step(), seconds, lambda: taken)

    def evidence(self, loader_alone: Rate | None, step_alone: Rate | None) -> Evidence:
        """Return all that was measured."""
        plan, last = self._loader.plan, self.whole.stages[-1]
        usage = self._usage
        cautions = list(plan.cautions)
        if self._sampler.reason:
            cautions.append(f"what blocked threads wait for is unknown: {self._sampler.reason}")
        return Evidence(
            plan.pipeline.name,
            self._windows,
            HostUse(
                plan.cores,
                usage.own if usage else None,
                usage.others if usage else None,
                pressure=usage.pressure if usage else None,
            ),
            self._causes(),
            self._sampled.gil_busy,
            self._sampled.gil_holders,
            loader_alone,
            step_alone,
            device_step=plan.step is not None and not computes(last),
            cautions=cautions,
            notes=[*plan.notes, *self._cache()],
        )

    def _cache(self) -> list[str]:
        """Return how far a cache was filled in the windows, and what it will give."""
        if self._predicted is None:
            return []
        ledger = self.whole.ledger
        kept = ledger["cached"] / max(ledger["cached"] + ledger["read"], 1)
        state = f"{kept:.0%} of the samples so far came from {self._predicted.cache}"
        return [state if kept else f"{state}: these figures are without it", str(self._predicted)]

    def _consume(self, batch: Any) -> None:
        if self._session is not None:
            self._session(batch)

    def _threads(self) -> list[Thread]:
        """Return the workers' threads, and the consumer's, which is the calling one.

        Not those that wait for a process of their own: what it does cannot be seen in them.
        """
        found = [
            Thread(state.thread.native_id, state.whereabouts, [name for name, _ in segment.stages])
            for segment in self._loader.segments
            if segment.executor != "process"
            for state in segment.workers
            if state.thread is not None and state.thread.native_id is not None
        ]
        last = self._loader.facts[-1].name
        place = self._loader.consumer.whereabouts
        return [*found, Thread(threading.get_native_id(), place, [last])]

    def _causes(self) -> dict[int, dict[Cause, float]]:
        """Return what each segment was seen doing: its stages' shares, by their time."""
        found: dict[int, dict[Cause, float]] = {}
        weights: dict[int, float] = {}
        for row in self.whole.stages:
            shares = self._sampled.causes.get(row.name)
            weight = row.items * ((row.service_ms or 0.0) + (row.runqueue_ms or 0.0))
            if shares and weight:
                mine = found.setdefault(row.segment, {})
                weights[row.segment] = weights.get(row.segment, 0.0) + weight
                for cause, share in shares.items():
                    mine[cause] = mine.get(cause, 0.0) + share * weight
        return {
            segment: {cause: share / weights[segment] for cause, share in mine.items()}
            for segment, mine in found.items()
        }


def _timed(turns: Iterator[Any], seconds: float, count: Callable[[], int], parts: int = 5) -> Rate:
    """Return the rate of a count over turns, for so long, in parts for its interval."""
    rates: list[float] = []
    lengths: list[float] = []
    for _ in range(parts):
        begun, before = time.perf_counter(), count()
        while time.perf_counter() - begun < seconds / parts:
            if next(turns, turns) is turns:
                break
        elapsed = max(time.perf_counter() - begun, 1e-9)
        rates.append((count() - before) / elapsed)
        lengths.append(elapsed)
    return rate_of(rates, lengths)
