"""Figures in shared memory."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from pathlib import Path

import pytest

from stoker.watching import table as t
from stoker.watching.figures import Figures, counts_of
from stoker.watching.meter import DATASET, Meter
from stoker.watching.table import Region, Table


def test_names_are_cut_to_what_fits_and_never_inside_a_character() -> None:
    table = Table.private()
    table.name_slot(2, "transform[0] Größe")
    table.name_slot(3, "ä" * 100)
    names = [name for name, _ in table.slots()]
    assert names == ["", "", "transform[0] Größe", "ä" * 32]
    table.name_spot(0, "x" * 500)
    assert [name for name, _ in table.spots()] == ["x" * 112]


def test_a_name_written_over_a_longer_one_is_whole() -> None:
    table = Table.private()
    table.name_slot(0, "a long name")
    table.name_slot(0, "short")
    assert next(table.slots())[0] == "short"


def test_cells_lie_apart() -> None:
    table = Table.private()
    table.name_slot(t.SLOT_COUNT - 1, "last slot")
    table.name_spot(t.SPOT_COUNT - 1, "last spot")
    table.cells[t.SLOW + 2 * t.SLOW_COUNT - 1] = 7
    assert [name for name, _ in table.slots()][-1] == "last slot"
    assert [name for name, _ in table.spots()][-1] == "last spot"
    assert table.header()[t.SLOW + 2 * t.SLOW_COUNT - 1] == 7


def _write(region: Region, worker: int) -> None:
    table = region.table(worker)
    table.cells[t.STARTED], table.cells[t.PID] = 1, os.getpid()
    table.name_slot(0, f"from {worker}")


@pytest.mark.slow
def test_a_spawned_process_writes_and_the_parent_reads() -> None:
    region = Region(2)
    process = multiprocessing.get_context("spawn").Process(target=_write, args=(region, 1))
    process.start()
    process.join()
    region.seal()
    assert region.table(0).header()[t.STARTED] == 0
    assert region.table(1).header()[t.PID] == process.pid
    assert next(region.table(1).slots())[0] == "from 1"


def test_a_sealed_region_is_sent_to_nobody() -> None:
    region = Region(1)
    region.seal()
    region.seal()
    with pytest.raises(TypeError, match="sealed"):
        pickle.dumps(region)
    _write(region, 0)  # it is still there for this process


def test_nothing_is_left_in_any_file_system() -> None:
    places = [place for place in (Path("/dev/shm"), Path("/tmp")) if place.is_dir()]
    before = [set(os.listdir(place)) for place in places]
    files = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else 0
    region = Region(3)
    _write(region, 2)
    assert [{*os.listdir(place)} - seen for place, seen in zip(places, before, strict=True)] == [
        set() for _ in places
    ]
    del region
    if files:
        assert len(os.listdir("/proc/self/fd")) == files


def test_figures_since_an_earlier_time() -> None:
    table = Table.private()
    table.cells[t.STARTED], table.cells[t.RUNQUEUE_NS] = 1, -1
    meter = Meter(table)

    def batch() -> None:
        meter.start_batch()
        for _ in range(3):
            meter.call(DATASET, abs, (-1,), {})
        meter.end_batch(3)

    batch()
    since = counts_of(table)
    meter._skip = 0
    batch()
    later, whole = Figures(), Figures()
    later.add(table, since)
    whole.add(table)
    assert whole.slot("dataset").calls == 6
    assert later.slot("dataset").calls == later.slot("dataset").histogram.total == 3
    assert later[t.BATCHES] == 1
    assert later.runqueue_ns is None
    merged = Figures()
    merged.merge(whole)
    merged.merge(later)
    assert merged.slot("dataset").calls == 9
    assert len(merged.workers) == 2


def test_a_worker_that_could_not_be_metered_says_why() -> None:
    table = Table.private()
    table.cells[t.STARTED] = -1
    table.name_spot(0, "AttributeError: create_fetcher")
    figures = Figures()
    figures.add(table)
    assert figures.tables == 0
    assert figures.faults == ["AttributeError: create_fetcher"]
