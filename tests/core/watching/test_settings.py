"""What a loader's arguments waste, from facts made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.watching import settings
from stoker.watching import table as t
from stoker.watching.facts import Facts
from stoker.watching.figures import Spot
from stoker.watching.finding import Finding
from stoker.watching.model import Model

from .made import facts, slot


def found(given: Facts) -> dict[str, Finding]:
    return {finding.name: finding for finding in settings.findings(given, Model(given))}


def test_no_workers_on_eight_cores() -> None:
    finding = found(facts(workers=0, item_ms=2.0, step_ms=5.0))["no_workers"]
    # 20.5 ms of loading beside 5 ms of step: four workers keep up, but for 3 %.
    assert finding.advice == "num_workers=4, persistent_workers=True"
    assert finding.gain is not None
    assert finding.gain.low < 25.5 / 5.0 < finding.gain.high * 1.05
    assert finding.gain.value == pytest.approx(25.5 / 5.0, rel=0.15)


def test_workers_that_wait_may_outnumber_the_cores() -> None:
    given = facts(workers=0, cores=2.0, item_ms=2.0, item_cpu_ms=0.01, step_ms=2.0)
    advice = found(given)["no_workers"].advice
    assert int(advice.split("=")[1].split(",")[0]) > 2
    many = facts(workers=6, cores=2.0, item_ms=2.0, item_cpu_ms=0.01, step_ms=2.0)
    assert "too_many_workers" not in found(many)


def test_no_workers_is_fine_where_the_step_takes_long() -> None:
    assert "no_workers" not in found(facts(workers=0, item_ms=0.01, collate_ms=0.1, step_ms=50.0))


def test_few_workers() -> None:
    finding = found(facts(workers=1, item_ms=2.0, step_ms=5.0))["few_workers"]
    assert finding.headline.startswith("set num_workers=4 (now 1)")
    assert finding.gain is not None
    assert finding.gain.value == pytest.approx(20.5 / 5.0, rel=0.15)
    assert "few_workers" not in found(facts(workers=5, item_ms=2.0, step_ms=5.0))


def test_more_workers_than_cores() -> None:
    finding = found(facts(workers=12, cores=4.0, item_ms=2.0, step_ms=2.0))["too_many_workers"]
    assert finding.advice == "num_workers=4"
    assert finding.gain is None
    assert "memory" in finding.why_no_gain
    fewer = found(facts(workers=12, cores=4.0, item_ms=0.5, step_ms=8.0))["too_many_workers"]
    assert fewer.advice == "num_workers=1"  # the step takes longer than one worker's batch


def test_threads_per_worker() -> None:
    given = facts(workers=4, cores=4.0, library_ms=5.0)
    given.work.torch_threads = 2
    finding = found(given)["threads_per_worker"]
    assert finding.advice.startswith("call torch.set_num_threads(1) in worker_init_fn")
    assert finding.gain is not None
    assert finding.gain.low == 1.0
    assert finding.gain.high == pytest.approx(15.5 / 10.5)


def test_threads_that_the_cores_have_room_for_promise_no_gain() -> None:
    given = facts(workers=2, cores=16.0)
    given.work.torch_threads = 2
    finding = found(given)["threads_per_worker"]
    assert finding.gain is None
    assert finding.why_no_gain == "16 cores are enough for 2 x 2 threads"
    given.work.torch_threads, given.work.cv2_threads = 1, 4
    assert "threads_per_worker" not in found(given)


def test_opencv_threads() -> None:
    given = facts(workers=4, cores=4.0)
    given.work.torch_threads, given.work.cv2_threads = 1, 4
    assert "cv2.setNumThreads(0)" in found(given)["threads_per_worker"].advice


def test_short_epochs_without_persistent_workers() -> None:
    given = facts(workers=2, pauses_ms=(900.0, 400.0, 400.0), batches=60, item_ms=0.5)
    finding = found(given)["no_persistent_workers"]
    assert finding.advice == "persistent_workers=True"
    # The cold first epoch does not count; one batch's work is left of a pause.
    assert finding.figures["pause_s"] == pytest.approx(0.4)
    assert finding.figures["saved_s"] == pytest.approx(0.4 - 0.0056)
    epoch = finding.figures["epoch_s"]
    assert finding.gain is not None
    assert finding.gain.high == pytest.approx(epoch / (epoch - 0.3944))
    assert finding.gain.low < finding.gain.value < finding.gain.high


@pytest.mark.parametrize(
    "changed", [{"persistent_workers": True}, {"pauses_ms": (400.0,)}, {"batches": 60000}]
)
def test_pauses_that_do_not_count(changed: dict[str, Any]) -> None:
    given = {"workers": 2, "pauses_ms": (900.0, 400.0, 400.0), "batches": 60, "item_ms": 0.5}
    assert "no_persistent_workers" not in found(facts(**{**given, **changed}))


def _stacking(stage: str, looks: int) -> dict[str, Spot]:
    return {
        "torch.stack in loop (train.py:7)": Spot(stage, True, 0, 0, looks),
        "loop (train.py:7)": Spot(stage, False, 0, 0, 30),
    }


def test_collate_in_the_loop_needs_samples_that_come_uncollated() -> None:
    lists = {t.LISTS: 100}
    finding = found(facts(workers=2, main_spots=_stacking("step", 30), sums=lists))[
        "collate_in_main"
    ]
    assert "in torch.stack in loop" in finding.headline
    assert finding.gain is not None
    assert finding.gain.value == pytest.approx(2.0)
    # A model that stacks tensors is none of the loader's business.
    assert "collate_in_main" not in found(facts(workers=2, main_spots=_stacking("step", 30)))
    assert "collate_in_main" not in found(
        facts(workers=2, main_spots=_stacking("step", 2), sums=lists)
    )


def test_collate_around_the_loader() -> None:
    spots = _stacking("fetch", 30)
    assert "collate_in_main" in found(facts(workers=2, kind="iterable", main_spots=spots))
    # Without workers all of it is in the main process anyway.
    assert "collate_in_main" not in found(facts(workers=0, main_spots=spots))


def test_batches_that_vary_want_more_of_them_in_flight() -> None:
    spread = [(2.0, 90), (60.0, 10)]
    given = facts(workers=4, item_ms=0.73, step_ms=3.0, wait_ms=2.0)
    given.work.slots["fetch"] = slot(100, 7.8, own_ms=0.0, spread=spread)
    finding = found(given)["low_prefetch"]
    assert finding.advice in ("prefetch_factor=4", "prefetch_factor=8")
    assert finding.gain is not None
    assert finding.gain.value > 1.05
    assert "low_prefetch" not in found(facts(workers=2, item_ms=2.0))


def test_heavy_transport() -> None:
    given = facts(workers=2, cores=2.0, item_ms=0.2, send_ms=4.0, receive_ms=2.0, wait_ms=3.0)
    finding = found(given)["heavy_transport"]
    assert finding.figures["share_of_loading_cpu"] == pytest.approx(6.0 / 8.5)
    assert "heavy_transport" not in found(facts(workers=2, item_ms=2.0))


def test_pinning_is_asked_for_on_a_gpu_only() -> None:
    given = facts(workers=2)
    assert "not_pinned" not in found(given)
    given.gpu_in_use = True
    assert "pin_memory=True" in found(given)["not_pinned"].advice
    given.settings.pin_memory = True
    assert "not_pinned" not in found(given)


def test_nothing_is_predicted_where_nothing_was_metered() -> None:
    given = facts(workers=0)
    given.work.sums[t.BATCHES] = 0
    finding = found(given)["no_workers"]
    assert finding.gain is None
    assert finding.why_no_gain == "the work on a batch was not metered"


def test_nothing_is_predicted_where_the_simulation_misses() -> None:
    finding = found(facts(workers=1, item_ms=2.0, wait_ms=90.0, step_ms=5.0))["few_workers"]
    assert finding.gain is None
    assert "off by a factor of" in finding.why_no_gain
