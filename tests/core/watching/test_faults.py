"""DataLoaders with planted faults: each is named, by real workers and figures."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy
import pytest
from PIL import Image

from stoker.measure import host
from stoker.watching import WatchReport, analyze_loader, watch

from .loaders import (
    Burn,
    Compose,
    Pictures,
    Rows,
    Scale,
    Sleep,
    SlowOnes,
    Stacked,
    Wide,
    loader,
    stacked,
    two_threads,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]
FORK: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": "fork"}


@pytest.fixture
def _four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "cores", lambda: 4.0)


@pytest.fixture
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "cores", lambda: 2.0)


def _named(report: WatchReport) -> set[str]:
    text = str(report)
    assert len(text.splitlines()) <= 25
    assert max(map(len, text.splitlines())) <= 80
    return {finding.name for finding in report.findings}


@pytest.mark.usefixtures("_four_cores")
def test_no_workers() -> None:
    made = loader(Rows(64, transform=Sleep(0.004)), batch_size=4)
    report = analyze_loader(made, 1.0, step_ms=4.0)
    finding = report.finding("no_workers")
    assert finding is not None
    assert finding.gain is not None
    assert finding.gain.value > 1.5
    assert "num_workers=" in finding.advice
    assert report.headline.startswith("set num_workers=")


def test_a_step_that_takes_long_needs_nothing() -> None:
    made = loader(Rows(64), batch_size=4, persistent_workers=True, **FORK)
    report = analyze_loader(made, 2.5, step_ms=250.0)
    assert report.headline.startswith("do nothing: the step is the bottleneck")


def test_oversized_decode(tmp_path: Path) -> None:
    noise = numpy.random.default_rng(1).integers(0, 255, (500, 500, 3), numpy.uint8)
    picture = Image.fromarray(noise).resize((4000, 4000), Image.Resampling.BILINEAR)
    picture.save(tmp_path / "large.jpg", quality=90)
    made = loader(Pictures(str(tmp_path / "large.jpg")), batch_size=2, **FORK)
    report = analyze_loader(made, 2.0)
    finding = report.finding("oversized_decode")
    assert finding is not None
    assert finding.figures["decoded_pixels"] == 4000 * 4000
    assert finding.figures["delivered_pixels"] == 224 * 224
    assert "draft" in finding.advice
    assert report.finding("slow_transform") is None
    assert [row.name for row in report.stages][:2] == ["getitem", "decode"]


def test_batches_put_together_by_a_loader_around_the_loader() -> None:
    inner = loader(Wide(), batch_size=None, persistent_workers=True, **FORK)
    report = analyze_loader(Stacked(inner, 16), 3.0)  # some 75 looks
    finding = report.finding("collate_in_main")
    assert finding is not None
    assert "stack" in finding.figures["place"]
    assert "collate_fn" in finding.advice


def test_batches_put_together_in_the_loop() -> None:
    made = loader(Wide(), batch_size=16, collate_fn=list, persistent_workers=True, **FORK)
    made = watch(made, cost=0.03)
    until = time.monotonic() + 2.0
    while time.monotonic() < until:
        began = time.monotonic()
        for samples in made:
            stacked(samples, time.monotonic() - began)
            began = time.monotonic()
    report = made.report()
    finding = report.finding("collate_in_main")
    assert finding is not None
    assert finding.figures["samples_come_uncollated"]
    assert "torch.stack" in finding.headline


@pytest.mark.parametrize("settings", [{}, FORK], ids=["main", "fork"])
def test_slow_member_of_a_compose(settings: dict[str, Any]) -> None:
    transform = Compose([Scale(), Sleep(0.001), Sleep(0.006), Scale()])
    made = loader(Rows(96, transform=transform), batch_size=4, **settings)
    report = analyze_loader(made, 1.5)
    finding = report.finding("slow_transform")
    assert finding is not None
    assert finding.figures["transform"] == "transform[2] Sleep"
    assert finding.figures["share_of_sample"] > 0.6
    assert report.finding("python_bound") is None


@pytest.mark.parametrize("settings", [{}, FORK], ids=["main", "fork"])
def test_python_bound_transform(settings: dict[str, Any]) -> None:
    transform = Compose([Scale(), Burn(0.004), Scale()])
    made = loader(Rows(200, transform=transform), batch_size=4, **settings)
    report = analyze_loader(made, 3.0)
    finding = report.finding("python_bound")
    assert finding is not None
    assert finding.figures["stage"] == "transform[1] Burn"
    assert "no gain" in str(report.as_stoker)


@pytest.mark.usefixtures("_two_cores")
def test_more_workers_than_cores() -> None:
    made = loader(
        Rows(96, transform=Burn(0.002)),
        batch_size=4,
        num_workers=5,
        multiprocessing_context="fork",
        persistent_workers=True,
    )
    report = analyze_loader(made, 1.5)
    finding = report.finding("too_many_workers")
    assert finding is not None
    assert "num_workers=" in finding.advice
    assert finding.figures["num_workers"] == 5
    assert finding.gain is None
    assert finding.why_no_gain


@pytest.mark.usefixtures("_two_cores")
def test_two_torch_threads_in_each_worker() -> None:
    made = loader(Rows(96), batch_size=4, worker_init_fn=two_threads, **FORK)
    report = analyze_loader(made, 1.0)
    finding = report.finding("threads_per_worker")
    assert finding is not None
    assert finding.figures["threads_per_worker"] == 2
    assert "torch.set_num_threads(1)" in finding.advice


def test_short_epochs_without_persistent_workers() -> None:
    report = analyze_loader(loader(Rows(12), batch_size=4, **FORK), 2.0, step_ms=5.0)
    finding = report.finding("no_persistent_workers")
    assert finding is not None
    assert finding.advice == "persistent_workers=True"
    assert finding.gain is not None
    assert finding.gain.low > 1.1
    kept = loader(Rows(12), batch_size=4, persistent_workers=True, **FORK)
    assert analyze_loader(kept, 1.0, step_ms=5.0).finding("no_persistent_workers") is None


@pytest.mark.parametrize("settings", [{}, FORK], ids=["main", "fork"])
def test_a_slow_sample_in_fifty(settings: dict[str, Any]) -> None:
    report = analyze_loader(loader(SlowOnes(), batch_size=8, **settings), 2.5)
    finding = report.finding("slow_samples")
    assert finding is not None
    named = [one["index"] for one in finding.figures["slowest"] if one["ms"] > 50]
    assert named
    assert all(index % 50 == 7 for index in named)
    assert finding.headline.startswith("1 sample in ")
