"""Facts made by hand: loaders on machines that are not here."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from stoker.measure.histogram import Histogram
from stoker.watching import table as t
from stoker.watching.facts import Facts, Settings
from stoker.watching.figures import Figures, Slot, Spot
from stoker.watching.loops import Epoch, Loop

MS = 1_000_000


def slot(
    calls: int,
    ms: float,
    *,
    own_ms: float | None = None,
    cpu_ms: float | None = None,
    looks: tuple[int, int, int] = (0, 0, 0),
    spread: Sequence[tuple[float, int]] | None = None,
) -> Slot:
    """Return a stage whose calls took so many ms each.

    Args:
        calls: that were metered.
        ms: each.
        own_ms: without the stages inside it; all of it by default.
        cpu_ms: on a core; all of it by default.
        looks: times found in Python, holding the GIL in C, and without it.
        spread: durations in ms with their counts, in place of equal ones.
    """
    own = ms if own_ms is None else own_ms
    cpu = ms if cpu_ms is None else cpu_ms
    histogram = Histogram()
    for duration, count in spread or [(ms, calls)]:
        histogram.add(round(duration * MS), count)
    return Slot(
        calls,
        round(calls * ms * MS),
        round(calls * own * MS),
        round(calls * cpu * MS),
        round(calls * cpu * own / ms * MS) if ms else 0,
        round(max(duration for duration, _ in spread) * MS) if spread else round(ms * MS),
        *looks,
        histogram,
    )


def facts(
    *,
    workers: int = 0,
    cores: float = 8.0,
    batches: int = 100,
    batch_size: int = 10,
    item_ms: float = 1.0,
    item_cpu_ms: float | None = None,
    collate_ms: float = 0.5,
    step_ms: float = 2.0,
    wait_ms: float | None = None,
    stages: Mapping[str, Slot] | None = None,
    item_spread: Sequence[tuple[float, int]] | None = None,
    spots: Mapping[str, Spot] | None = None,
    main_spots: Mapping[str, Spot] | None = None,
    looks: tuple[int, int, int] = (10, 0, 90),
    send_ms: float = 0.0,
    receive_ms: float = 0.1,
    library_ms: float = 0.0,
    pauses_ms: Sequence[float] = (),
    sums: Mapping[int, int] | None = None,
    kind: str = "DataLoader",
    **settings: Any,
) -> Facts:
    """Return the facts of a loader, all its batches metered.

    Args:
        wait_ms: for a batch; by default what the model of the loader says.
        pauses_ms: what the start of each epoch took; one epoch without any by default.
        send_ms, receive_ms, library_ms: CPU time of a batch.
    """
    fetch_ms = item_ms * batch_size + collate_ms
    cpu_ms = (item_ms if item_cpu_ms is None else item_cpu_ms) * batch_size + collate_ms
    if wait_ms is None:
        busy = max(fetch_ms / max(workers, 1), (cpu_ms + send_ms) / cores)
        wait_ms = fetch_ms if not workers else max(busy - step_ms, receive_ms)
    items = batches * batch_size
    work = Figures()
    work.tables = max(workers, 1)
    work.sums.update(
        {
            t.BATCHES: batches,
            t.ITEMS: items,
            t.METERED_BATCHES: batches,
            t.METERED_ITEMS: items,
            t.HOOKED_ITEMS: items,
            t.BUSY_NS: round(batches * fetch_ms * MS),
            t.FEEDER_CPU_NS: round(batches * send_ms * MS),
            **(sums or {}),
        }
    )
    work.main_cpu_ns = round(batches * cpu_ms * MS)
    work.process_cpu_ns = round(batches * (cpu_ms + send_ms + library_ms) * MS)
    work.slots = {
        "fetch": slot(batches, fetch_ms, own_ms=0.0, cpu_ms=cpu_ms, looks=looks),
        "dataset": slot(items, item_ms, cpu_ms=item_cpu_ms, spread=item_spread),
        "collate": slot(batches, collate_ms),
        **(stages or {}),
    }
    work.spots = dict(spots or {})
    main = Figures()
    main.spots = dict(main_spots or {})
    chosen = Settings(
        kind, workers, settings.pop("prefetch_factor", 2), batch_size=batch_size, **settings
    )
    return Facts(chosen, cores, _loop(batches, wait_ms, step_ms, receive_ms, pauses_ms), work, main)


def _loop(
    batches: int, wait_ms: float, step_ms: float, receive_ms: float, pauses_ms: Sequence[float]
) -> Loop:
    loop = Loop()
    for _ in range(batches):
        loop.waits.add(round(wait_ms * MS))
        loop.steps.add(round(step_ms * MS))
    assert isinstance(loop.waits.values, array)
    loop.next_cpu[:] = [round(receive_ms * MS), 1]
    count = max(len(pauses_ms), 1)
    for pause in pauses_ms or (0.0,):
        each = batches // count
        loop.epochs.append(
            Epoch(
                0,
                first_ns=round(pause * MS),
                batches=each,
                wait_ns=round(each * wait_ms * MS),
                step_ns=round(each * step_ms * MS),
                complete=True,
            )
        )
    loop.spent.elapsed_ns = sum(epoch.total_ns for epoch in loop.epochs)
    return loop
