"""What people read, and what programs read."""

from __future__ import annotations

import json

import pytest

from stoker.watching import table as t
from stoker.watching.facts import Facts
from stoker.watching.figures import Spot
from stoker.watching.report import report_of

from .made import facts, slot


def crowded() -> Facts:
    """A loader with about everything wrong, and many transforms with long names."""
    stages = {f"transform[{n}] RandomPhotometric{n}" * 2: slot(1000, 0.02) for n in range(25)}
    stages |= {
        "dataset": slot(1000, 3.0, own_ms=0.1, spread=[(2.0, 980), (52.0, 20)]),
        "decode": slot(1000, 1.2),
        "transform[25] Loop": slot(1000, 1.1, looks=(90, 1, 1)),
    }
    sums = {t.DECODED: 1000, t.DECODED_PIXELS: 16_000_000_000, t.DECODED_JPEG: 1000, t.LISTS: 9}
    spots = {"torch.stack in loop (train.py:7)": Spot("step", True, 0, 0, 50)}
    given = facts(
        workers=12,
        cores=4.0,
        item_ms=3.0,
        stages=stages,
        sums=sums,
        main_spots=spots,
        library_ms=9.0,
        send_ms=30.0,
        pauses_ms=(900.0, 800.0),
    )
    given.loop.pixels = [224 * 224]
    given.work.torch_threads = 2
    given.gpu_in_use = True
    given.cautions = ["others used 1.5 of 4 cores meanwhile", "x" * 300]
    return given


@pytest.mark.parametrize(
    "given", [crowded(), facts(workers=2), facts(), facts(step_ms=500.0), facts(kind="iterable")]
)
def test_a_block_of_25_lines_and_80_columns(given: Facts) -> None:
    report = report_of(given)
    lines = str(report).splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 80
    assert lines[0].strip() == lines[0] != ""
    assert report.headline.startswith(lines[0])
    assert lines[-1].startswith(f"{len(given.loop.epochs)} epoch")
    assert any(line.startswith("As a Stoker pipeline") for line in lines)


@pytest.mark.parametrize("given", [crowded(), facts()])
def test_everything_as_json(given: Facts) -> None:
    report = report_of(given)
    read = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert read["headline"] == report.headline
    assert [one["name"] for one in read["findings"]] == [one.name for one in report.findings]
    for finding in read["findings"]:
        assert (finding["gain"] is None) == (finding["why_no_gain"] is not None)
        assert finding["advice"]
        assert finding["evidence"]
    assert {"getitem", "collate", "step"} <= {row["name"] for row in read["stages"]}


def test_the_largest_predicted_gain_comes_first() -> None:
    report = report_of(crowded())
    names = {finding.name for finding in report.findings}
    assert {"oversized_decode", "too_many_workers", "threads_per_worker", "slow_samples"} <= names
    gains = [finding.gain.value if finding.gain else 1.0 for finding in report.findings]
    assert gains == sorted(gains, reverse=True)
    assert report.headline.startswith(report.findings[0].headline)
    assert report.finding("no_workers") is None
    first = report.findings[0]
    assert report.finding(first.name) is first


def test_verdicts() -> None:
    assert report_of(facts(workers=2, step_ms=50.0)).headline == (
        "do nothing: the step is the bottleneck (waiting for data 0% of the time)"
    )
    fed = report_of(facts(workers=1, cores=1.0, item_ms=1.0, collate_ms=0.1, step_ms=1.0))
    assert fed.headline.startswith("nothing found that the loader wastes (waiting for data 9")


def test_figures_by_name_and_unit() -> None:
    figures = report_of(facts(workers=2, item_ms=2.0, step_ms=2.0, batches=50)).figures
    assert figures["num_workers"] == 2
    assert figures["batches"] == 50
    assert figures["batch_size"] == 10
    assert figures["samples_per_s"] == pytest.approx(10 * figures["batches_per_s"])
    assert figures["batches_per_s"] == pytest.approx(1 / 0.01025, rel=0.01)
    assert 0.7 < figures["wait_share"] < 0.9
    assert figures["measured_over_simulated"] == pytest.approx(1.0, rel=0.05)
