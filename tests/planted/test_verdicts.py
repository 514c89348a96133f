"""Planted bottlenecks are named: stage, resource, and what their removal would give.

Each is planted five times in other sizes, so that nothing can be tuned to one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from stoker.analyze.bounds import ceiling_without
from stoker.analyze.demands import groups_of
from stoker.analyze.diagnose import diagnose
from stoker.analyze.diagnosis import Diagnosis
from tests.planted.demands import Op, c, device, disk, lock, py, sleep
from tests.planted.job import Job
from tests.planted.parts import Batch, Segment, Stage, Step

pytestmark = pytest.mark.slow

SEEDS = range(5)


class Sizes:
    """Sizes that vary with the seed."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(f"sizes {seed}")
        self.seed = seed
        self.batch = self._draw.choice([8, 12, 16, 24, 32])
        self.jitter = self._draw.uniform(0.02, 0.25)

    def near(self, value: float, by: float = 0.3) -> float:
        """Return a value that is off by at most a share."""
        return value * self._draw.uniform(1 - by, 1 + by)

    def choose(self, *values: int) -> int:
        """Return one of some values."""
        return self._draw.choice(values)

    def pipeline(
        self,
        decode: Sequence[Op],
        augment: Sequence[Op],
        workers: tuple[int, int],
        step: float = 2.0,
        **settings: object,
    ) -> Job:
        """Return a job with decode and augment in segments of their own, around fast parts."""
        segments = [
            Segment([Stage("read", "read", [c(self.near(0.05))])], self.choose(1, 2, 4)),
            Segment([Stage("decode", "decode", decode)], workers[0]),
            Segment([Stage("augment", "augment", augment)], workers[1]),
        ]
        return self.job(segments, step, **settings)

    def job(self, segments: Sequence[Segment], step: float = 2.0, **settings: object) -> Job:
        """Return a job with these segments, a cheap collate and a step of some ms on a device."""
        batch = Batch(self.batch, [c(self.near(0.5))])
        return Job(segments, batch, Step([device(self.near(step), 0.02)]), **settings)  # type: ignore[arg-type]


def verdict(job: Job, seed: int) -> Diagnosis:
    """Measure a job and diagnose it."""
    return diagnose(job.measure(seconds=6, warmup=1, seed=seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_decoder_that_sleeps(seed: int) -> None:
    sizes = Sizes(seed)
    cores = sizes.choose(2, 4, 8)
    slow = [sleep(sizes.near(20), sizes.jitter)]
    found = verdict(sizes.pipeline(slow, [c(sizes.near(0.5))], (1, 1), cores=cores), seed)
    assert (found.verdict, found.stage, found.resource) == ("bottleneck", "decode", "wait")
    assert found.ceiling.value > 5


@pytest.mark.parametrize("seed", SEEDS)
def test_a_decoder_that_fills_all_cores(seed: int) -> None:
    sizes = Sizes(seed)
    cores = sizes.choose(2, 4)
    workers = cores * sizes.choose(1, 2)
    slow = [c(sizes.near(6), sizes.jitter)]
    found = verdict(sizes.pipeline(slow, [c(sizes.near(0.5))], (workers, 1), cores=cores), seed)
    assert (found.verdict, found.stage, found.resource) == ("bottleneck", "decode", "cores")


@pytest.mark.parametrize("seed", SEEDS)
def test_an_augment_in_python(seed: int) -> None:
    sizes = Sizes(seed)
    cores = sizes.choose(4, 8)
    slow = [py(sizes.near(4), sizes.jitter)]
    found = verdict(sizes.pipeline([c(sizes.near(1))], slow, (2, 2), cores=cores), seed)
    assert (found.verdict, found.stage, found.resource) == ("bottleneck", "augment", "gil")


@pytest.mark.parametrize("seed", SEEDS)
def test_an_augment_in_python_among_others(seed: int) -> None:
    sizes = Sizes(seed)
    chain = [
        Stage("read", "read", [c(sizes.near(0.05))]),
        Stage("decode", "decode", [c(sizes.near(1), sizes.jitter)]),
        Stage("augment", "augment", [py(sizes.near(4), sizes.jitter)]),
    ]
    found = verdict(sizes.job([Segment(chain, sizes.choose(2, 3, 4))], cores=8), seed)
    assert (found.verdict, found.stage, found.resource) == ("bottleneck", "augment", "gil")


@pytest.mark.parametrize("sampled", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_an_augment_in_python_beside_a_decoder_that_computes_more(seed: int, sampled: bool) -> None:
    sizes = Sizes(seed)
    decode, augment = [c(sizes.near(6), 0.1)], [py(sizes.near(3), sizes.jitter)]
    job = sizes.pipeline(decode, augment, (4, 2), cores=8)
    evidence = job.measure(6, 1, seed)
    if not sampled:
        evidence = replace(evidence, gil_holders={})
    found = diagnose(evidence)
    assert (found.verdict, found.stage, found.resource) == ("bottleneck", "augment", "gil")
    if sampled:
        read, middle, _ = job.segments
        free = replace(job, segments=[read, middle, Segment([Stage("augment", "augment", [])], 2)])
        gain = free.rate(6, 1, seed).value / job.rate(6, 1, seed).value
        assert found.ceiling.value == pytest.approx(gain, rel=0.12)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_thread_of_python_holds_everybody_up(seed: int) -> None:
    sizes = Sizes(seed)
    decode, augment = [c(sizes.near(0.5), 0.1)], [py(sizes.near(3), sizes.jitter)]
    found = verdict(sizes.pipeline(decode, augment, (2, 1), cores=8), seed)
    assert (found.verdict, found.stage, found.resource) == ("bottleneck", "augment", "gil")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_slow_job_is_not_undetermined(seed: int) -> None:
    sizes = Sizes(seed)
    job = sizes.pipeline([sleep(sizes.near(45), sizes.jitter)], [c(0.5)], (1, 1), cores=4)
    found = verdict(replace(job, batch=Batch(32)), seed)
    assert (found.verdict, found.stage, found.resource) == ("bottleneck", "decode", "wait")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_step_on_the_cores_that_the_loader_takes(seed: int) -> None:
    sizes = Sizes(seed)
    job = sizes.pipeline([c(sizes.near(6), sizes.jitter)], [c(0.3)], (4, 1), cores=2)
    job = replace(job, step=Step([c(sizes.near(2, 0.2) * sizes.batch)]))
    found = verdict(job, seed)
    assert (found.verdict, found.stage, found.resource) == ("bottleneck", "decode", "cores")
    assert found.ceiling.value > 1.2


@pytest.mark.parametrize("seed", SEEDS)
def test_a_step_that_nothing_else_reaches(seed: int) -> None:
    sizes = Sizes(seed)
    decode, augment = [c(sizes.near(1), sizes.jitter)], [c(sizes.near(0.4))]
    found = verdict(sizes.pipeline(decode, augment, (2, 1), 50, cores=4), seed)
    assert (found.verdict, found.stage, found.resource) == ("do nothing", "step", "device")
    assert found.ceiling.value > 1.5


@pytest.mark.parametrize("kind", [sleep, c])
@pytest.mark.parametrize("seed", SEEDS)
def test_two_that_bind_together(seed: int, kind: Callable[[float], Op]) -> None:
    sizes = Sizes(seed)
    scale, workers = sizes.near(1.0), sizes.choose(1, 2, 3)
    decode, augment = [kind(10.0 * scale)], [kind(9.8 * scale)]
    found = verdict(sizes.pipeline(decode, augment, (workers, workers), cores=8), seed)
    assert (found.verdict, found.stage) == ("tie", "decode")
    assert found.ceiling.value == pytest.approx(1.02, abs=0.02)
    assert found.ceiling.next == "augment"


@pytest.mark.parametrize("kind", [sleep, c])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_two_sharing_workers(seed: int, kind: Callable[[float], Op]) -> None:
    sizes = Sizes(seed)
    scale, workers = sizes.near(1.0), sizes.choose(1, 2, 3)
    both = [
        Stage("decode", "decode", [kind(10.0 * scale)]),
        Stage("augment", "augment", [kind(9.8 * scale)]),
    ]
    read = Segment([Stage("read", "read", [c(0.05)])], 2)
    evidence = sizes.job([read, Segment(both, workers)], cores=8).measure(6, 1, seed)
    found = diagnose(evidence)
    assert (found.verdict, found.stage) == ("bottleneck", "decode")
    assert found.resource == ("wait" if kind is sleep else "cpu")
    assert found.ceiling.value == pytest.approx(2.02, rel=0.03)
    other = ceiling_without(evidence, groups_of(evidence), "augment")
    assert other.value == pytest.approx(1.98, rel=0.03)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_worker_that_computes_while_cores_are_free(seed: int) -> None:
    sizes = Sizes(seed)
    decode, augment = [c(sizes.near(8), sizes.jitter)], [c(sizes.near(1))]
    found = verdict(sizes.pipeline(decode, augment, (1, 1), cores=sizes.choose(4, 8)), seed)
    assert (found.verdict, found.stage, found.resource) == ("bottleneck", "decode", "cpu")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_slow_disk(seed: int) -> None:
    sizes = Sizes(seed)
    read = Stage("read", "read", [disk(sizes.near(8), sizes.jitter)])
    decode = Stage("decode", "decode", [c(sizes.near(0.5))])
    job = sizes.job([Segment([read], sizes.choose(1, 2, 4)), Segment([decode], 2)], cores=4)
    found = verdict(job, seed)
    assert (found.verdict, found.stage, found.resource) == ("bottleneck", "read", "io")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_lock_that_all_workers_want(seed: int) -> None:
    sizes = Sizes(seed)
    decode = [lock("table", sizes.near(5), sizes.jitter), c(sizes.near(1))]
    found = verdict(sizes.pipeline(decode, [c(sizes.near(0.5))], (4, 1), cores=8), seed)
    assert (found.verdict, found.stage, found.resource) == ("bottleneck", "decode", "lock")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_collate_that_takes_too_long(seed: int) -> None:
    sizes = Sizes(seed)
    job = sizes.pipeline([c(sizes.near(0.5))], [c(sizes.near(0.3))], (2, 1), cores=4)
    slow = Batch(sizes.batch, [c(sizes.near(3) * sizes.batch, sizes.jitter)])
    found = verdict(replace(job, batch=slow), seed)
    assert (found.verdict, found.stage, found.resource) == ("bottleneck", "collate", "cpu")


@pytest.mark.parametrize("seed", SEEDS)
def test_another_process_with_cores_to_spare(seed: int) -> None:
    sizes = Sizes(seed)
    decode = [c(sizes.near(4), sizes.jitter)]
    job = sizes.pipeline(decode, [c(sizes.near(0.5))], (2, 1), cores=4, others=[[c(10)]])
    found = verdict(job, seed)
    assert (found.verdict, found.stage, found.resource) == ("bottleneck", "decode", "cpu")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_ceiling_is_what_removing_the_stage_gives(seed: int) -> None:
    sizes = Sizes(seed)
    cores = sizes.choose(2, 4)
    augment = [c(sizes.near(1), sizes.jitter)]
    job = sizes.pipeline([c(sizes.near(5), sizes.jitter)], augment, (cores, 1), cores=cores)
    found = verdict(job, seed)
    read, _, last = job.segments
    gone = Segment([Stage("decode", "decode", [])], cores)
    without = replace(job, segments=[read, gone, last])
    gain = without.rate(6, 1, seed).value / job.rate(6, 1, seed).value
    assert found.stage == "decode"
    assert found.ceiling.low * 0.98 < gain < found.ceiling.high * 1.02


@pytest.mark.parametrize("seed", SEEDS)
def test_another_process_on_the_cores(seed: int) -> None:
    sizes = Sizes(seed)
    cores = sizes.choose(2, 4)
    hogs = [[c(10)]] * (cores * sizes.choose(1, 2))
    decode = [c(sizes.near(4), sizes.jitter)]
    job = sizes.pipeline(decode, [c(sizes.near(0.5))], (cores, 1), cores=cores, others=hogs)
    found = verdict(job, seed)
    assert (found.verdict, found.resource) == ("bottleneck", "outside")
    gain = replace(job, others=()).rate(6, 1, seed).value / job.rate(6, 1, seed).value
    assert found.ceiling.value == pytest.approx(gain, rel=0.05)
