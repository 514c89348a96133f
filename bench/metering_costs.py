"""What each kind of metering costs: loops that do what the engine does for it."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable, Mapping
from functools import partial
from queue import Empty, SimpleQueue
from time import perf_counter_ns, thread_time_ns
from types import SimpleNamespace
from typing import Any

import numpy

from stoker.engine.consumer import Consumer
from stoker.engine.runners import Runner
from stoker.engine.segment import Segment
from stoker.loader import Loader
from stoker.measure.meter import Gauge, Meter, WaitMeter
from stoker.measure.whereabouts import NOWHERE, Whereabouts
from stoker.sample import nbytes

STAGE = "sample stage, once a chunk"
BATCH_STAGE = "batch stage, once a batch"
HAND_OVER = "worker takes a job, each time"
GAUGE = "buffer gauge, each change"
WAIT = "wait of a worker or the consumer"
CONSUMER = "consumer, once a batch"

Loop = Callable[[int], None]
"""Takes the number of turns."""

# About what decoding a picture and cropping it writes.
_TOUCHED_BYTES = 1 << 20


def cost_loops(loader: Loader) -> Mapping[str, Loop]:
    """Return a loop for each kind of metering.

    Args:
        loader: whose samples, batches and segments are metered. Runs into its next epoch.
    """
    batch = next(iter(loader))
    # A sample as the last stage before the batch hands it on.
    sample = {name: values[0] for name, values in batch.items()}
    sample["image"], sample["cls"] = sample["image"].numpy(), int(sample["cls"])
    runner = Runner(loader.plan.stages[1], "bench", len, Meter(), loader.failures, 0)
    return {
        STAGE: partial(_stage, runner, [sample]),
        BATCH_STAGE: partial(_batch_stage, runner, batch),
        HAND_OVER: _hand_over,
        GAUGE: partial(_gauge, Gauge(perf_counter_ns()), threading.Lock()),
        WAIT: partial(_wait, WaitMeter(), loader.segments[0]),
        CONSUMER: partial(_consumer, Consumer()),
    }


def _stage(runner: Runner, samples: list[Any], turns: int) -> None:
    job: Any = SimpleNamespace(work_ns=0, wall_ns=0, cpu_ns=0)
    for _ in range(turns):
        size = nbytes(samples[0]) * len(samples) if samples else 0
        runner.count(job, 1, len(samples), size)


def _batch_stage(runner: Runner, batch: Any, turns: int) -> None:
    job: Any = SimpleNamespace(work_ns=0, wall_ns=0, cpu_ns=0)
    for _ in range(turns):
        runner.count(job, 1, 1, nbytes(batch))


def _hand_over(turns: int) -> None:
    job: Any = SimpleNamespace(work_ns=0, wall_ns=0, cpu_ns=0)
    stage = Whereabouts().stage
    for _ in range(turns):
        job.wall_ns, job.cpu_ns = perf_counter_ns(), thread_time_ns()
        for number in range(2):  # about as many as stages share a worker
            stage[0] = number
        stage[0] = NOWHERE


def _gauge(gauge: Gauge, lock: threading.Lock, turns: int) -> None:
    by = 1
    for _ in range(turns):
        with lock:
            gauge.change(by, perf_counter_ns())
        by = -by


def _wait(waits: WaitMeter, segment: Segment, turns: int) -> None:
    empty: SimpleQueue[None] = SimpleQueue()
    for _ in range(turns):
        try:
            empty.get_nowait()
        except Empty:
            waits.waits_for_output = segment.waits_for_output(segment)
            waits.since_ns = perf_counter_ns()
            waits.end(perf_counter_ns())


def _consumer(consumer: Consumer, turns: int) -> None:
    for _ in range(turns):
        consumer.hand_over(1)
        consumer.come_back()


def _nothing(turns: int) -> None:
    for _ in range(turns):
        pass


def warm_ns(loop: Loop, turns: int) -> float:
    """Return the CPU time of one turn of a loop among many, the bare loop taken off."""
    spent = []
    for one in (_nothing, loop):
        begun = thread_time_ns()
        one(turns)
        spent.append(thread_time_ns() - begun)
    return max(spent[1] - spent[0], 0) / turns


def cold_ns(loop: Loop, turns: int) -> float:
    """Return the time of one turn by itself, after a picture's worth of memory was written.

    By the wall clock, since that of the CPU costs as much as what is measured; the median
    leaves out the turns that were interrupted.
    """
    touched = numpy.zeros(_TOUCHED_BYTES, numpy.uint8)
    medians = []
    for one in (_nothing, loop):
        spent = []
        for _ in range(turns):
            touched += 1
            begun = perf_counter_ns()
            one(1)
            spent.append(perf_counter_ns() - begun)
        medians.append(statistics.median(spent))
    return max(medians[1] - medians[0], 0.0)
