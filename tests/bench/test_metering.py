from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from bench.metering_costs import (
    BATCH_STAGE,
    CONSUMER,
    GAUGE,
    HAND_OVER,
    STAGE,
    WAIT,
    cold_ns,
    cost_loops,
    warm_ns,
)

from bench import metering

pytest.importorskip("sklearn")


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    metering.make_pictures(tmp_path / "pictures", 5)
    return tmp_path / "pictures"


def test_pictures_are_of_imagenet_like_sizes(pictures: Path) -> None:
    from PIL import Image

    paths = sorted(pictures.glob("photograph-*/*.jpg"))
    assert len(paths) == 5
    assert len({path.parent for path in paths}) == 2
    for path in paths:
        with Image.open(path) as picture:
            assert picture.format == "JPEG"
            assert 400 <= picture.width <= 500
            assert 350 <= picture.height <= 375


def test_what_metering_does_is_counted_in_a_real_epoch(pictures: Path) -> None:
    with metering.pipeline(pictures) as loader:
        epoch = metering.run_epoch(loader)
    assert epoch.samples == 5
    assert epoch.sample_stages == 4  # read, decode, crop, flip
    assert epoch.cpu_ns > 0
    assert epoch.times[STAGE] == 5 * 4  # these stages are slow: a sample a chunk
    assert epoch.times[BATCH_STAGE] == 3  # stack, pin, copy
    assert epoch.times[HAND_OVER] == 2 * 5 + 1  # two segments a sample, one the batch
    assert epoch.times[CONSUMER] == 1
    assert epoch.times[GAUGE] >= 2 * 5


def test_counting_ends_with_its_block(pictures: Path) -> None:
    with metering.pipeline(pictures) as loader:
        with metering.counting() as seen:
            list(loader)
        counted = len(seen)
        list(loader)
    assert counted == len(seen) > 0


def test_the_loops_meter(pictures: Path) -> None:
    with metering.pipeline(pictures) as loader:
        loops = cost_loops(loader)
        for loop in loops.values():
            loop(3)
    assert set(loops) == {STAGE, BATCH_STAGE, HAND_OVER, GAUGE, WAIT, CONSUMER}
    made: dict[str, Any] = {
        kind: loop.args[0] for kind, loop in loops.items() if hasattr(loop, "args")
    }
    assert made[STAGE].meter.items_in == made[BATCH_STAGE].meter.items_in == 6  # one runner
    assert made[STAGE].meter.nbytes > 3 * 224 * 224 * 3
    assert made[GAUGE].peak == 1
    assert sum(made[WAIT].read(0)) > 0
    assert made[CONSUMER].meter.items_in == 3


def test_a_turn_costs_what_it_does() -> None:
    def loop(numbers: int, turns: int) -> None:
        for _ in range(turns):
            sum(range(numbers))

    for cost_ns in (warm_ns, cold_ns):
        small, large = cost_ns(partial(loop, 10), 50), cost_ns(partial(loop, 100_000), 50)
        assert 0 <= small < large


def test_the_account() -> None:
    epoch = metering.Epoch(
        samples=100, cpu_ns=100_000_000, sample_stages=4, times={STAGE: 200, CONSUMER: 10}
    )
    costs = {STAGE: 3000.0, CONSUMER: 2000.0}
    one = metering.Round(epoch, costs, costs)
    assert one.samples_per_chunk == 2.0
    assert one.metering_ns(costs) == 3000 * 2 + 2000 * 0.1
    assert one.worst_ns(costs) == 3000 * 4 + 2000 * 0.1
    assert one.percent(one.metering_ns(costs)) == pytest.approx(0.62)


def test_a_whole_run_in_small(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "metering.json"
    arguments = ["--rounds", "2", "--scale", "0.02", "--json", "--out", str(out)]
    assert metering.main(arguments) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(out.read_text())
    assert printed["command"] == "python -m bench.metering --rounds 2 --scale 0.02"
    assert printed["pictures"] == 4
    assert printed["samples_per_chunk"] == 1.0
    assert 0 < printed["share_percent"]["value"] < 100
    assert printed["kinds"][STAGE]["times_per_sample"] == 4.0
    assert {target["at_most"] for target in printed["targets"].values()} == {1.0}
    assert "2 rounds: 20 or more" in metering.table(printed)
