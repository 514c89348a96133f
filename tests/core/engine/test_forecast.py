from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from stoker import Pipeline
from stoker.engine.forecast import SAMPLES, Forecast, forecast
from stoker.engine.plan import make_plan
from stoker.rng import Rng
from stoker.sample import Sample
from stoker.stages import Map
from stoker_plugins.collate import List
from tests.core.engine.test_caching import Keep
from tests.toys import Add, Numbers


@dataclass(frozen=True)
class Swell(Map):
    """Makes a sample of so many bytes."""

    name: ClassVar[str] = "toy.swell"
    kind: ClassVar[str] = "swell"
    deterministic: ClassVar[bool] = True
    nbytes: int = 1000
    fails_at: tuple[int, ...] = ()

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        if sample["x"] in self.fails_at:
            raise ValueError("not this one")
        return {"__key__": sample["__key__"], "x": sample["x"], "data": bytes(self.nbytes)}


def _plan(*stages: Any, count: int = 200, **options: Any) -> Any:
    return make_plan(Pipeline("p", Numbers(count), *stages, List(4), **options))


def test_what_a_cache_will_take_is_told_by_a_few_samples_of_the_whole_epoch() -> None:
    found = forecast(_plan(Swell(nbytes=1000), Keep(max_bytes=10**6), Add()))
    assert found is not None
    assert found.tried == SAMPLES
    assert found.samples == 200
    assert found.sample_nbytes == pytest.approx(1000, rel=0.3)  # and its key and number
    assert found.nbytes == found.sample_nbytes * 200
    assert found.before == ("toy.numbers", "toy.swell")
    assert found.share == 1.0
    assert "all fit" in str(found)


def test_a_budget_that_is_too_small_is_seen_before_it_is_full() -> None:
    found = forecast(_plan(Swell(nbytes=10_000), Keep(max_bytes=10**6)))
    assert found is not None
    assert found.share == pytest.approx(0.5, rel=0.1)
    assert "49% of them fit" in str(found)


def _forecast(**changes: Any) -> Forecast:
    given = {
        "cache": "c", "before": ("read", "decode"), "tried": 24, "sample_nbytes": 1e5,
        "samples": 1000, "budget_nbytes": 10**9, "before_ms": 3.0, "behind_ms": 1.0,
    }  # fmt: skip
    return Forecast(**{**given, **changes})


@pytest.mark.parametrize(
    ("changes", "share", "speedup"),
    [
        ({}, 1.0, 4.0),
        ({"budget_nbytes": 5 * 10**7}, 0.5, 1 / (1 - 0.5 * 0.75)),
        ({"before_ms": 0.0}, 1.0, 1.0),
        ({"samples": None}, None, None),
    ],
)
def test_the_gain_is_what_is_kept_of_what_is_saved(
    changes: dict[str, Any], share: float | None, speedup: float | None
) -> None:
    found = _forecast(**changes)
    assert found.share == (None if share is None else pytest.approx(share))
    assert found.speedup == (None if speedup is None else pytest.approx(speedup))
    assert "times as fast" in str(found) or speedup is None


def test_samples_that_fail_are_left_to_the_run() -> None:
    found = forecast(_plan(Swell(fails_at=tuple(range(0, 200, 2))), Keep(), seed=3))
    assert found is not None
    assert 0 < found.tried < SAMPLES


def test_there_is_no_forecast_where_nothing_is_cached_or_nothing_can_be_made() -> None:
    assert forecast(_plan(Swell())) is None
    assert forecast(_plan(Swell(fails_at=tuple(range(200))), Keep())) is None


@pytest.mark.parametrize("count", [1, 2, 24, 25, 26])
def test_a_short_epoch_is_tried_as_far_as_it_goes(count: int) -> None:
    found = forecast(_plan(Swell(), Keep(), count=count))
    assert found is not None
    assert found.tried == max(1, min(count - 1, SAMPLES))


@dataclass(frozen=True)
class Dear(Map):
    """Spins for so long a sample."""

    name: ClassVar[str] = "toy.dear"
    kind: ClassVar[str] = "dear"
    deterministic: ClassVar[bool] = True
    rounds: int = 20_000

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        sum(range(self.rounds))
        return sample


def test_time_before_the_cache_is_told_from_that_behind_it() -> None:
    before = forecast(_plan(Dear(), Keep(), Add()))
    behind = forecast(_plan(Keep(), Dear()))
    assert before is not None
    assert behind is not None
    assert before.saved > 0.8 > 0.3 > behind.saved


@dataclass(frozen=True)
class Deadly(Map):
    """Must not run in this process."""

    name: ClassVar[str] = "toy.deadly"
    kind: ClassVar[str] = "deadly"
    deterministic: ClassVar[bool] = True
    ran: list[int] = field(default_factory=list)

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        self.ran.append(1)
        return sample


def test_what_runs_in_processes_is_never_tried_in_this_one() -> None:
    deadly = Deadly(executor="process", num_workers=1)
    assert forecast(_plan(deadly, Keep())) is None
    behind = forecast(_plan(Swell(), Keep(), deadly, Dear()))
    assert behind is not None
    assert behind.behind_ms == 0.0
    assert deadly.ran == []


def test_a_sample_takes_what_its_cache_says() -> None:
    class Double(Keep):
        def nbytes_of(self, sample: Sample) -> int:
            return 2 * super().nbytes_of(sample)

    plain, double = forecast(_plan(Swell(), Keep())), forecast(_plan(Swell(), Double()))
    assert plain is not None
    assert double is not None
    assert double.sample_nbytes == 2 * plain.sample_nbytes
