from __future__ import annotations

import pytest
from bench.common import Interval, all_met, verdicts
from bench.peers_contestants import DALI, DATALOADER, FAST, GRAIN, LIMITS, STOKER, TF_PLAIN
from bench.peers_job import IMAGE, JPEG
from bench.peers_measure import Figures
from bench.peers_targets import Ahead, Bound, Level, fastest, lines, targets

PILLOW_PATH, FAST_PATH = STOKER[IMAGE], STOKER[JPEG]


def figures(rate, cold_s=1.0, pss_bytes=100.0):
    rates = [rate * share for share in (1.0, 1.001, 0.999)]
    return Figures(rates, cold_s=[cold_s] * 3, pss_bytes=[pss_bytes] * 3)


def run(**rates):
    """Figures by which all targets and goals are met, with some of the rates changed."""
    usual = {
        PILLOW_PATH: figures(1000, 0.5, 80),
        FAST_PATH: figures(1900, 0.5, 80),
        DATALOADER: figures(1000),
        DATALOADER + FAST: figures(1500),
        DALI: figures(1000),
        GRAIN[0] + FAST: figures(1800),
        GRAIN[1] + FAST: figures(1700),
        TF_PLAIN: figures(1900),
        LIMITS[IMAGE]: figures(1010),
        LIMITS[JPEG]: figures(1950),
    }
    return {**usual, **{name: figures(rate) for name, rate in rates.items()}}


def told(found):
    return {target.name: target.to_dict() for target in targets(found, {})}


def test_all_targets_are_met_by_a_run_that_reaches_all_goals():
    found = told(run())
    assert all_met({"targets": found})
    assert len(found) == 12
    assert all(target.get("goal_met", True) for target in found.values())
    assert all(line.startswith("pass ") for line in lines(found))


@pytest.mark.parametrize(
    ("other", "rate", "met", "goal_met"),
    [
        (DATALOADER, 1900 / 1.6, True, False),
        (DATALOADER, 1900 / 1.4, False, False),
        (DALI, 1900 / 1.5, True, False),
        (DALI, 1900 / 1.3, False, False),
        (DATALOADER + FAST, 1900 / 1.2, True, False),
        (DATALOADER + FAST, 1900 / 1.1, False, False),
        (LIMITS[JPEG], 1900 / 0.93, True, False),
        (LIMITS[JPEG], 1900 / 0.90, False, False),
    ],
)
def test_floor_and_goal_are_told_apart(other, rate, met, goal_met):
    target = told(run(**{other: rate}))[f"{FAST_PATH} over {other}"]
    assert (target["met"], target["goal_met"]) == (met, goal_met)


def test_the_pillow_path_is_held_to_the_fastest_peer_with_pillow():
    found = run(**{"webdataset": 1015.0, "SPDL, per batch": 700.0})
    name = f"{PILLOW_PATH} over the best peer with Pillow (webdataset)"
    assert told(found)[name]["met"]
    assert not told({**found, "webdataset": figures(1030)})[name]["met"]


def test_peers_that_use_no_pillow_do_not_count_as_such():
    names = list(told(run()))
    assert names[0].endswith(f"({DATALOADER})")  # TF and DALI, faster or as fast, have their own


def test_the_fast_path_is_held_to_the_faster_of_grain():
    assert f"{FAST_PATH} over {GRAIN[0]}{FAST}" in told(run())
    found = told(run(**{GRAIN[1] + FAST: 1895.0}))
    assert f"{FAST_PATH} over {GRAIN[1]}{FAST}" in found


@pytest.mark.parametrize(
    ("figure", "met"),
    [
        (Interval(0.98, 0.951, 1.01), True),
        (Interval(0.979, 0.96, 1.01), False),
        (Interval(1.1, 0.95, 1.3), False),
    ],
)
def test_level_needs_both_value_and_interval(figure, met):
    assert Level("a", 0.98, False, figure).met is met


def test_ahead_needs_the_whole_interval_above():
    assert Ahead("a", 1.0, False, Interval(1.02, 1.001, 1.04)).met
    assert not Ahead("a", 1.0, False, Interval(1.02, 1.0, 1.04)).met


def test_a_bound_from_above_has_its_goal_below():
    kept = Bound("a", 1.0, True, Interval(0.8, 0.7, 0.9), goal=0.85)
    assert kept.met
    assert not kept.reached
    assert Bound("a", 1.0, True, Interval(0.8, 0.7, 0.9), goal=0.9).reached


def test_start_and_memory_are_held_below_the_dataloaders():
    found = run()
    found[FAST_PATH] = figures(1900, cold_s=1.2, pss_bytes=90)
    short = [name for name, target in told(found).items() if not target["met"]]
    assert short == [f"time to first batch, {FAST_PATH} over {DATALOADER}"]


def test_what_is_missing_is_said_and_meets_nothing():
    found = {name: run()[name] for name in (PILLOW_PATH, FAST_PATH)}
    named = targets(found, {DALI: "no room"})
    result = {"targets": {target.name: target.to_dict() for target in named}}
    assert not any(target["met"] for target in result["targets"].values())
    assert all(line.startswith("not measured") for line in lines(result["targets"]))
    assert all(line.startswith("not measured") for line in verdicts(result))
    assert "no room" in "".join(lines(result["targets"]))


def test_the_fastest_is_by_the_median():
    found = {"a": Figures([1.0, 1.0, 9.0]), "b": Figures([2.0, 2.0, 2.0])}
    assert fastest(found, ["a", "b", "c"]) == "b"
    assert fastest(found, ["c"]) is None


def test_lines_tell_figure_floor_and_goal():
    target = Bound("mine over theirs", 1.5, False, Interval(1.6, 1.55, 1.7), goal=1.8)
    assert lines({target.name: target.to_dict()}) == [
        "pass          mine over theirs: 1.600 (1.550 to 1.700), at least 1.5; goal 1.8: miss"
    ]
