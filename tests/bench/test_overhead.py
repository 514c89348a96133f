from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from bench.contestants import CONTESTANTS, Contestant

from bench import overhead

ROOT = Path(__file__).resolve().parents[2]
BY_NAME = {contestant.name: contestant for contestant in CONTESTANTS}


def contestant(give: Callable[[int], Iterable[Any]], needs: tuple[str, ...] = ()) -> Contestant:
    @contextmanager
    def opened(n: int) -> Iterator[Iterable[Any]]:
        yield give(n)

    return Contestant("made up", "", opened, needs)


@pytest.mark.parametrize("name", BY_NAME)
def test_contestants_give_all_items_in_order(name: str) -> None:
    there, left_out = overhead.present([BY_NAME[name]])
    if not there:
        pytest.skip(left_out[name])
    overhead.check(there[0], 130)  # two hand-overs of 64, and a rest


@pytest.mark.parametrize("wrong", [lambda n: range(n - 1), lambda n: range(n)[::-1]])
def test_a_contestant_that_loses_or_reorders_is_found_out(
    wrong: Callable[[int], Iterable[int]],
) -> None:
    with pytest.raises(RuntimeError, match="in order"):
        overhead.check(contestant(wrong))


def test_the_clock_does_not_run_before_the_first_item() -> None:
    def late(n: int) -> Iterator[int]:
        sum(range(3_000_000))  # what starting costs
        yield from range(n)

    def slow(n: int) -> Iterator[int]:
        for item in range(n):
            sum(range(300_000))
            yield item

    lazy, working = contestant(late), contestant(slow)
    assert overhead.seconds_per_item(lazy, 10) < overhead.seconds_per_item(working, 10)


def test_more_items_than_asked_for_are_an_error() -> None:
    with pytest.raises(RuntimeError, match="more than the 5 items"):
        overhead.seconds_per_item(contestant(lambda n: range(n + 1)), 5)


def test_a_round_has_items_enough() -> None:
    plain = BY_NAME["plain loop"]
    assert overhead.items_for(plain, 0.002) > overhead.items_for(plain, 0.00001) >= plain.least


def test_a_peer_that_is_not_installed_is_left_out_and_said() -> None:
    there, left_out = overhead.present(
        [contestant(range), contestant(range, ("json", "no_such_package"))]
    )
    assert len(there) == 1
    assert left_out == {"made up": "no_such_package not installed"}


def seconds(us: dict[str, float]) -> overhead.Seconds:
    return {name: [value * 1e-6] * 7 for name, value in us.items()}


def test_targets_compare_with_peers() -> None:
    us = {
        "stoker inline": 2.0,
        "stoker threads": 5.0,
        "torchdata.nodes Mapper": 1.9,
        "torchdata.nodes ParallelMapper": 101.0,
    }
    met = {t.name: t.met for t in overhead.targets(seconds(us), {"spdl": "spdl not installed"})}
    assert list(met.values()) == [True, False, True, True, False]
    unmeasured = overhead.targets(seconds(us), {"spdl": "spdl not installed"})[-1]
    assert unmeasured.why == "spdl not installed"


def test_targets_miss_slow_engines() -> None:
    us = {"stoker inline": 2.6, "stoker threads": 10.1}
    assert not any(target.met for target in overhead.targets(seconds(us), {}))


def test_a_whole_run_in_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["plain loop", "stoker inline", "stoker threads"]
    absent = Contestant("spdl", "", BY_NAME["spdl"].open, ("no_such_package",))
    monkeypatch.setattr(overhead, "CONTESTANTS", [*(BY_NAME[name] for name in names), absent])
    out = tmp_path / "overhead.json"
    options = ["--rounds", "1", "--scale", "0.005"]
    assert overhead.main([*options, "--json", "--out", str(out)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(out.read_text())
    assert list(printed["us_per_item"]) == names
    assert printed["command"] == "python -m bench.overhead --rounds 1 --scale 0.005"
    assert printed["left_out"] == {"spdl": "no_such_package not installed"}
    assert "1 rounds: 7 or more are needed for a figure" in printed["cautions"]
    for name in names:
        each = printed["us_per_item"][name] * printed["items_per_s"][name]
        assert each == pytest.approx(1e6, rel=0.01)
    against = printed["ratios"]["stoker inline"]["plain loop / stoker inline"]
    assert 0 < against["low"] <= against["value"] <= against["high"] < 1
    target = printed["targets"]["stoker threads, times as fast as spdl"]
    assert target == {
        "value": None,
        "why": "no_such_package not installed",
        "at_least": 100.0,
        "met": False,
    }
    text = overhead.table(printed)
    assert "left out: spdl: no_such_package not installed" in text
    assert "not measured" in text


@pytest.mark.parametrize("how", [["bench/overhead.py"], ["-m", "bench.overhead"]])
def test_it_runs_as_a_file_and_as_a_module(how: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, *how, "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "Engine overhead per item" in done.stdout
