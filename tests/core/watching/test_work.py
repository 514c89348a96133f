"""What is wasted on each sample, from facts made by hand."""

from __future__ import annotations

import pytest

from stoker.watching import table as t
from stoker.watching import work
from stoker.watching.facts import Facts
from stoker.watching.figures import Spot
from stoker.watching.finding import Finding
from stoker.watching.model import Model, tail_of

from .made import MS, facts, slot


def found(given: Facts) -> dict[str, Finding]:
    return {finding.name: finding for finding in work.findings(given, Model(given))}


def _decoding(side: int, jpeg: bool = True, ms: float = 3.0) -> Facts:
    sums = {
        t.DECODED: 1000,
        t.DECODED_PIXELS: 1000 * side * side,
        t.DECODED_JPEG: 1000 if jpeg else 0,
    }
    stages = {"dataset": slot(1000, 4.0, own_ms=4.0 - ms), "decode": slot(1000, ms)}
    given = facts(workers=2, cores=2.0, item_ms=4.0, sums=sums, stages=stages)
    given.loop.pixels = [224 * 224] * 4
    return given


def test_decode_of_4000_pixel_pictures_for_224_pixel_crops() -> None:
    finding = found(_decoding(4000))["oversized_decode"]
    assert finding.headline.startswith("decode smaller: 16 MP are decoded for 0.05 MP used, 75%")
    assert "image.draft('RGB', (448, 448))" in finding.advice
    assert finding.figures["ratio"] == pytest.approx(4000**2 / 224**2)
    assert finding.gain is not None
    # Between half and most of the decoding, which is three quarters of the sample, is saved.
    assert 1.4 < finding.gain.value < 2.8
    assert finding.gain.low < finding.gain.value < finding.gain.high


def test_decode_that_is_not_oversized() -> None:
    assert "oversized_decode" not in found(_decoding(300))
    assert "oversized_decode" not in found(_decoding(4000, ms=0.2))
    assert "draft" not in found(_decoding(4000, jpeg=False))["oversized_decode"].advice
    unknown = _decoding(4000)
    unknown.loop.pixels = []
    assert "oversized_decode" not in found(unknown)


def test_a_slow_member_is_named_with_the_next() -> None:
    stages = {"transform[0] Crop": slot(1000, 0.1), "transform[1] Blur": slot(1000, 0.8)}
    finding = found(facts(workers=1, stages=stages))["slow_transform"]
    assert finding.figures["transform"] == "transform[1] Blur"
    assert finding.figures["next"] == "transform[0] Crop"
    assert finding.headline == "make transform[1] Blur cheaper: it takes 80% of a sample's time"
    assert finding.gain is not None
    assert finding.gain.value > 1.3


def test_members_that_are_alike_are_not_slow() -> None:
    stages = {"transform[0] Crop": slot(1000, 0.4), "transform[1] Blur": slot(1000, 0.5)}
    assert "slow_transform" not in found(facts(workers=1, stages=stages))
    assert "slow_transform" not in found(
        facts(workers=1, stages={"transform Blur": slot(1000, 0.9)})
    )


def test_decoding_inside_a_member_is_not_the_members_fault() -> None:
    stages = {
        "transform[0] Crop": slot(1000, 0.9, own_ms=0.1),
        "transform[1] Flip": slot(1000, 0.05),
        "decode": slot(1000, 0.8),
    }
    assert "slow_transform" not in found(facts(workers=1, stages=stages))


def test_python_bound() -> None:
    stages = {
        "dataset": slot(1000, 1.0, own_ms=0.1),
        "transform[0] Crop": slot(1000, 0.1, looks=(0, 0, 10)),
        "transform[1] Loop": slot(1000, 0.8, looks=(50, 5, 5)),
    }
    spots = {
        "Loop.__call__ (train.py:3)": Spot("transform[1] Loop", False, 50, 0, 0),
        "Crop.__call__ (train.py:9)": Spot("transform[0] Crop", False, 90, 0, 0),
    }
    finding = found(facts(workers=1, stages=stages, spots=spots))["python_bound"]
    assert finding.figures["stage"] == "transform[1] Loop"
    assert finding.advice.startswith("Loop.__call__ (train.py:3): ")
    low, high = finding.figures["gil_share"]
    assert low < 55 / 60 < high


@pytest.mark.parametrize("looks", [(1, 1, 58), (2, 1, 0), (0, 0, 0)])
def test_c_code_and_what_was_hardly_seen_are_not_python_bound(looks: tuple[int, int, int]) -> None:
    stages = {
        "dataset": slot(1000, 1.0, own_ms=0.1),
        "transform[0] Blur": slot(1000, 0.8, looks=looks),
    }
    assert "python_bound" not in found(facts(workers=1, stages=stages))


def test_one_slow_sample_in_fifty() -> None:
    spread = [(1.0, 980), (50.0, 20)]
    given = facts(workers=2, item_ms=1.98, item_spread=spread, batch_size=10)
    given.work.slowest = [(index, 50 * MS) for index in (7, 57, 107)]
    finding = found(given)["slow_samples"]
    assert finding.headline.startswith("1 sample in 50 is slow: up to 50")
    assert "(slowest: 7, 57, 107)" in finding.advice
    assert "prefetch_factor=4" in finding.advice
    assert "in_order=False" in finding.advice
    share, of_time = tail_of(given)
    assert share == pytest.approx(0.02)
    assert of_time == pytest.approx(1000 / 1980, rel=0.1)
    assert finding.gain is not None
    assert finding.gain.value > 1.2


def test_samples_that_waited_for_a_core_are_not_slow_by_themselves() -> None:
    spread = [(1.0, 980), (10.0, 20)]
    given = facts(workers=2, item_ms=1.18, item_spread=spread)
    assert "slow_samples" in found(given)
    # Waits of half a millisecond on average are now and then as long as ten.
    given.work.runqueue_ns = 1000 * MS // 2
    assert "slow_samples" not in found(given)


def test_even_samples_are_not_slow() -> None:
    assert "slow_samples" not in found(facts(workers=2, item_spread=[(1.0, 700), (3.0, 300)]))


def test_slow_collate_only_where_the_step_waits() -> None:
    slow = facts(workers=1, item_ms=0.1, collate_ms=3.0, step_ms=1.0)
    assert found(slow)["slow_collate"].figures["share_of_batch"] == pytest.approx(0.75)
    fast = facts(workers=1, item_ms=0.1, collate_ms=3.0, step_ms=50.0)
    assert "slow_collate" not in found(fast)


def test_nothing_is_said_of_what_was_not_metered() -> None:
    given = facts(workers=2)
    given.work.sums[t.METERED_ITEMS] = 0
    assert found(given) == {}
