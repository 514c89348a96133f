from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
from bench.common import Interval, Target

from bench import common


def test_the_interval_holds_the_median_and_is_the_same_each_time() -> None:
    values = [5.0, 1.0, 4.0, 2.0, 3.0]
    figure = common.median(values)
    assert figure.value == 3.0
    assert 1.0 <= figure.low < 3.0 < figure.high <= 5.0
    assert figure == common.median(values)


def test_the_interval_narrows_with_agreement() -> None:
    assert common.median([2.0] * 9) == Interval(2.0, 2.0, 2.0)
    wide, narrow = common.median([1.0, 2.0, 3.0] * 3), common.median([1.9, 2.0, 2.1] * 3)
    assert narrow.high - narrow.low < wide.high - wide.low


def test_no_values_have_no_median() -> None:
    with pytest.raises(ValueError, match="at least one round"):
        common.median([])


def test_ratios_are_taken_round_by_round_so_drift_cancels() -> None:
    below = [1.0, 10.0, 3.0, 0.1]
    assert common.ratio([2 * value for value in below], below) == Interval(2.0, 2.0, 2.0)


def test_ratios_need_pairs() -> None:
    with pytest.raises(ValueError, match="3 rounds over 2 rounds"):
        common.ratio([1.0, 2.0, 3.0], [1.0, 2.0])


def test_digits() -> None:
    assert common.digits(1234.567) == 1235.0
    assert common.digits(0.00123456) == 0.001235


@pytest.mark.parametrize(
    ("at_most", "limit", "met"),
    [(True, 2.0, False), (True, 3.0, True), (False, 2.0, False), (False, 1.0, True)],
)
def test_a_target_is_held_to_the_worse_end(at_most: bool, limit: float, met: bool) -> None:
    target = Target("figure", limit, at_most, Interval(2.0, 1.0, 3.0))
    assert target.met is met
    assert target.to_dict()["met"] is met


def test_what_was_not_measured_is_not_met() -> None:
    target = Target("figure", 1.0, False, None, "peer not installed")
    assert not target.met
    assert target.to_dict()["why"] == "peer not installed"


def test_verdicts_say_what_was_missed() -> None:
    targets = [
        Target("fast", 2.0, True, Interval(1.0, 0.9, 1.1)),
        Target("slow", 2.0, True, Interval(3.0, 2.9, 3.1)),
        Target("unknown", 2.0, False, None, "peer not installed"),
    ]
    result = {"targets": {target.name: target.to_dict() for target in targets}}
    lines = [" ".join(line.split()) for line in common.verdicts(result)]
    assert lines == [
        "met fast: 1 (0.9 to 1.1), at most 2",
        "MISSED slow: 3 (2.9 to 3.1), at most 2",
        "not measured unknown, at least 2: peer not installed",
    ]
    assert not common.all_met(result)
    assert common.all_met({"targets": {"fast": targets[0].to_dict()}})


def test_rounds_are_interleaved_after_a_warm_up() -> None:
    seen: list[str] = []
    waits: list[int] = []

    def runner(name: str) -> float:
        seen.append(name)
        return float(len(seen))

    names = ["a", "b", "c", "d"]
    runs = {name: (lambda name=name: runner(name)) for name in names}
    figures = common.interleave(runs, 6, lambda: waits.append(len(seen)))
    rounds = [seen[start : start + 4] for start in range(0, len(seen), 4)]
    assert len(rounds) == 7
    assert all(sorted(order) == names for order in rounds)
    assert len({tuple(order) for order in rounds}) > 1
    assert waits == list(range(28))
    assert [len(figures[name]) for name in names] == [6] * 4
    assert min(min(values) for values in figures.values()) == 5.0  # the first 4 warmed up


def test_the_command_leaves_out_where_it_wrote() -> None:
    options = common.parser("about", 9)
    plain = options.parse_args([])
    given = options.parse_args(["--json", "--out", "somewhere/x.json", "--rounds", "12"])
    assert common.command("bench.x", plain, plain) == "python -m bench.x"
    assert common.command("bench.x", given, plain) == "python -m bench.x --rounds 12"


@pytest.mark.parametrize("wrong", [["--rounds", "0"], ["--scale", "-1"], ["--rounds", "many"]])
def test_wrong_options_are_refused(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        common.parser("about", 9).parse_args(wrong)
    assert wrong[1] in capsys.readouterr().err


def test_runs_that_are_short_or_disturbed_carry_cautions() -> None:
    full, short = argparse.Namespace(rounds=7, scale=1.0), argparse.Namespace(rounds=1, scale=0.1)
    quiet, busy = {"load_average": 0.4, "cores": 2.0}, {"load_average": 3.0, "cores": 2.0}
    assert common.cautions(full, quiet) == []
    assert len(common.cautions(short, quiet)) == 2
    assert common.cautions(full, busy) == [
        "other work ran beside it: load average 3 on 2 cores",
    ]
    assert len(common.cautions(full, quiet, 20)) == 1


def test_surroundings_name_machine_and_versions() -> None:
    found = common.surroundings(("pytest", "no-such-package"))
    assert found["machine"]
    assert found["cores"] > 0
    assert found["versions"]["pytest"] == pytest.__version__
    assert "no-such-package" not in found["versions"]


def test_installed() -> None:
    assert common.installed("json")
    assert not common.installed("no_such_package")


def test_results_are_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "result.json"
    common.write(path, {"unit": "items/s", "value": 1.5})
    assert json.loads(path.read_text()) == {"unit": "items/s", "value": 1.5}
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    "private",
    ["/srv/data/x.jpg", "read from /srv/data", "root='/srv/data'", "~/data", "C:\\data"],
)
def test_results_name_no_places(tmp_path: Path, private: str) -> None:
    with pytest.raises(ValueError, match="must not name paths"):
        common.write(tmp_path / "result.json", {"deep": [{"inside": private}]})
    assert not list(tmp_path.iterdir())
