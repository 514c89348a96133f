"""A section: jobs in flight through some segments, coming out in order."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.engine.jobs import Job
from stoker.engine.segment import Segment


class Section:
    """Keeps a section's jobs and their order. The flow holds the lock around every call.

    Args:
        segments: that the jobs go through; none lets them come out at once.
        in_order: whether they come out by index, or as they finish.
    """

    def __init__(self, segments: Sequence[Segment], in_order: bool) -> None:
        self.segments = list(segments)
        self.started = 0
        """Jobs that were ever started: the index of the next one."""
        self.live: dict[int, Job] = {}
        """Jobs that have not left, by index."""
        self._finished: dict[int, Job] = {}
        self._next = 0
        self._in_order = in_order

    def admit(self, job: Job) -> None:
        """Count a job in."""
        self.live[job.index] = job
        self.started += 1

    def start(self, job: Job) -> None:
        """Count a job in and send it on its way."""
        self.admit(job)
        if self.segments:
            self.segments[0].put(job)
        else:
            self.finish(job)

    def finish(self, job: Job) -> None:
        """Note that all segments are through with a job."""
        self._finished[job.index] = job

    def take_finished(self, most: int | None = None) -> list[Job]:
        """Return finished jobs whose turn it is, `most` at the most; they stay live."""
        out: list[Job] = []
        while self._finished and (most is None or len(out) < most):
            index = self._next if self._in_order else next(iter(self._finished))
            job = self._finished.pop(index, None)
            if job is None:
                break
            self._next = index + 1
            out.append(job)
        return out

    def leave(self, job: Job) -> None:
        """Count a job out: it was delivered, or its samples were gathered up."""
        self.live.pop(job.index, None)
