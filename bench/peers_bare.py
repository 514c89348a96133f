"""Ways to do the job of `bench.peers` by hand: the limit, a plain loop and a pool of threads."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from bench.peers_job import Epoch, Job, loaded, stacked


@contextmanager
def limit(job: Job, how: str) -> Iterator[Epoch]:
    """Yield what bare processes do, one a core: batches are numbers of pictures."""
    fork = multiprocessing.get_context("fork")
    following = fork.Value("q", 0)
    pipes, processes = [], []
    for _ in range(job.workers):
        here, there = fork.Pipe()
        processes.append(
            fork.Process(target=_bare_loop, args=(job, how, there, following), daemon=True)
        )
        processes[-1].start()
        pipes.append(here)

    def epoch(number: int) -> Iterator[int]:
        following.value = 0
        for pipe in pipes:
            pipe.send(number)
        for pipe in pipes:
            yield pipe.recv()

    try:
        yield epoch
    finally:
        for pipe in pipes:
            pipe.send(None)
        for process in processes:
            process.join(5)


def _bare_loop(job: Job, how: str, pipe: Any, following: Any) -> None:
    while (epoch := pipe.recv()) is not None:
        files = job.shuffled(epoch)
        done = 0
        while True:
            with following.get_lock():  # whoever is free takes the next: both end together
                at = following.value
                following.value += 1
            if at >= len(files):
                break
            loaded(files[at], how, job.size)
            done += 1
        pipe.send(done)


@contextmanager
def plain_loop(job: Job, how: str) -> Iterator[Epoch]:
    """Yield what one thread does in a loop."""

    def epoch(number: int) -> Iterator[Any]:
        rows = []
        for file in job.shuffled(number):
            rows.append(loaded(file, how, job.size))
            if len(rows) == job.batch_size:
                yield stacked(rows)
                rows = []

    yield epoch


@contextmanager
def thread_pool(job: Job, how: str) -> Iterator[Epoch]:
    """Yield what a pool of threads gives, in order, two batches ahead at most."""
    with ThreadPoolExecutor(job.workers) as pool:

        def epoch(number: int) -> Iterator[Any]:
            coming: deque[Future[Any]] = deque()
            rows = []
            files = iter(job.shuffled(number))
            while True:
                while len(coming) < 2 * job.batch_size and (file := next(files, None)):
                    coming.append(pool.submit(loaded, file, how, job.size))
                if not coming:
                    return
                rows.append(coming.popleft().result())
                if len(rows) == job.batch_size:
                    yield stacked(rows)
                    rows = []

        yield epoch
