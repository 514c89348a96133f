"""Verdicts on hand-made evidence: each rule, and the order in which they are asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stoker.analyze.diagnose import diagnose
from stoker.analyze.evidence import Cause, Evidence, HostUse, Rate

from .evidences import evidence, report, row, step

FULL = HostUse(2.0, own=1.95, others=0.0)


def busy(name: str = "decode.image", segment: int = 1, **changes: Any) -> Any:
    facts = {"service_ms": 10.0, "cpu_ms": 0.1, "output_wait_share": 0.0, "segment": segment}
    return row(name, **{**facts, **changes})


def sleeping(causes: dict[Cause, float] | None = None, **changes: Any) -> Evidence:
    host = HostUse(4.0, own=0.05 if changes.get("cpu_ms", 0.0) < 5.0 else 1.0, others=0.0)
    rows = (row("read.files"), busy(**changes), step())
    return evidence(*rows, causes={1: causes} if causes else {}, host=host)


@pytest.mark.parametrize(
    ("causes", "resource"),
    [
        ({"sleep": 0.95, "running": 0.05}, "wait"),
        ({"disk": 0.8, "gil": 0.1}, "io"),
        ({"network": 0.8}, "io"),
        ({"gil": 0.6, "lock": 0.3}, "gil"),
        ({"lock": 0.6, "gil": 0.3}, "lock"),
        ({"running": 0.99}, "wait"),  # blocked, and nothing was seen of it
        (None, "wait"),
    ],
)
def test_what_a_blocked_share_is_made_of_names_the_resource(causes: Any, resource: str) -> None:
    found = diagnose(sleeping(causes))
    assert (found.verdict, found.stage, found.resource) == ("bottleneck", "decode.image", resource)
    assert "decode.image" in found.headline


def test_more_workers_are_named_for_what_waits() -> None:
    found = diagnose(sleeping({"sleep": 1.0}, num_workers=1))
    # the step lets 5,000/s through, so the workers are capped, not the gain
    assert found.ceiling.value == pytest.approx(50, rel=0.01)
    assert found.ceiling.next == "step.timed"
    assert any("--set decode.image.num_workers=16" in line for line in found.advice)


def test_a_thread_that_computes_while_cores_are_free_is_cpu() -> None:
    found = diagnose(sleeping(None, cpu_ms=9.9))
    assert found.resource == "cpu"
    assert any("num_workers=4" in line for line in found.advice)  # at most the cores


def test_all_cores_busy_names_the_stage_that_takes_most_cpu() -> None:
    found = diagnose(
        evidence(
            row("read.files"),
            busy("decode.image", cpu_ms=4.0, service_ms=4.0, runqueue_ms=2.0, num_workers=4),
            busy("augment.flip", cpu_ms=1.0, service_ms=1.0, runqueue_ms=3.0, segment=2),
            step(),
            host=FULL,
        )
    )
    assert (found.stage, found.resource) == ("decode.image", "cores")
    assert any("more workers give nothing" in line for line in found.advice)


def test_others_on_the_cores_are_outside_and_our_own_are_not() -> None:
    def found(host: HostUse) -> Any:
        stage = busy(cpu_ms=5.0, service_ms=5.0, runqueue_ms=5.0, num_workers=2)
        return diagnose(evidence(row("read.files"), stage, step(), host=host))

    assert found(HostUse(2.0, own=1.0, others=1.0)).resource == "outside"
    assert found(HostUse(2.0, own=1.0, others=None)).resource != "outside"  # unknown, not 0
    assert found(HostUse(2.0, own=1.97, others=0.02)).resource == "cores"


def test_stages_in_processes_of_their_own_are_not_blamed_for_the_gil() -> None:
    busy = {"service_ms": 9.0, "cpu_ms": 9.0, "output_wait_share": 0.0, "segment": 1}
    stage = row("augment.busy", executor="process", num_workers=2, **busy)
    found = diagnose(evidence(row("read.files"), stage, step(), gil_busy=0.97))
    assert (found.stage, found.resource) == ("augment.busy", "cpu")


def test_the_gil_is_named_by_how_busy_it_is_where_threads_cannot_be_sampled() -> None:
    stage = busy(cpu_ms=9.5, num_workers=2)
    found = diagnose(evidence(row("read.files"), stage, step(), gil_busy=0.97))
    assert found.resource == "gil"
    assert "the GIL" in [bound.name for bound in found.bounds]


def test_a_step_that_never_waits_is_the_bottleneck_and_nothing_is_to_be_done() -> None:
    found = diagnose(
        evidence(
            row("read.files"),
            row("decode.image", segment=1),
            step(data_wait_share=0.01, service_ms=10.0),
            loader_alone=Rate(450.0, 430.0, 470.0),
            step_alone=Rate(100.0, 99.0, 101.0),
        )
    )
    assert (found.verdict, found.resource, found.stage) == ("do nothing", "device", "step.timed")
    assert found.ceiling.value == pytest.approx(4.5)
    assert found.headline.startswith("Do nothing: step.timed on the device is the bottleneck")


def test_a_step_that_the_loader_slows_is_interference() -> None:
    found = diagnose(
        evidence(
            row("read.files"),
            step(data_wait_share=0.0, service_ms=10.0),
            loader_alone=Rate(450.0, 430.0, 470.0),
            step_alone=Rate(180.0, 175.0, 185.0),
        )
    )
    assert (found.verdict, found.resource) == ("bottleneck", "interference")
    assert any("1.80 times as long" in fact for fact in found.evidence)


def test_two_groups_alike_are_a_tie() -> None:
    found = diagnose(
        evidence(
            row("read.files"),
            busy("decode.image", service_ms=10.0),
            busy("augment.flip", segment=2, service_ms=9.8, data_wait_share=0.02),
            step(),
            causes={1: {"sleep": 1.0}, 2: {"sleep": 1.0}},
        )
    )
    assert found.verdict == "tie"
    assert found.stage == "decode.image"
    assert found.ceiling.value == pytest.approx(1.02, abs=0.005)
    assert "augment.flip" in found.headline


def test_two_stages_in_one_segment_add_up() -> None:
    found = diagnose(
        evidence(
            row("read.files"),
            busy("decode.image", service_ms=10.0, num_workers=2),
            busy("augment.flip", service_ms=9.8, num_workers=2),
            step(),
            causes={1: {"sleep": 1.0}},
        )
    )
    assert found.verdict == "bottleneck"
    assert found.ceiling.value == pytest.approx(19.8 / 9.8, rel=0.01)
    assert any("add up" in fact for fact in found.evidence)


def test_filtered_stages_count_by_how_often_they_are_visited() -> None:
    """A stage before a filter works for ten samples to deliver one."""
    read = row("read.files", items=1000, service_ms=0.9, cpu_ms=0.9, output_wait_share=0.01)
    found = diagnose(
        evidence(read, busy(service_ms=0.5, output_wait_share=0.0, data_wait_share=0.95), step())
    )
    assert found.stage == "read.files"


def test_undetermined_says_why() -> None:
    few = replace(evidence(row("read.files"), step()), windows=[report(row("r.f"), step())])
    found = diagnose(few)
    assert (found.verdict, found.resource, found.stage) == ("undetermined", "undetermined", None)
    assert "not enough steps" in found.headline
    wild = replace(
        few,
        windows=[
            report(row("read.files", items_per_s=rate), step(items_per_s=rate, items=int(rate)))
            for rate in (5.0, 400.0, 8.0, 300.0)
        ],
    )
    assert "varies by" in diagnose(wild).headline
    nothing = replace(few, windows=[report(row("r.f"), step(items=0, items_per_s=0.0))] * 4)
    assert diagnose(nothing).verdict == "undetermined"
    assert diagnose(replace(few, windows=[])).verdict == "undetermined"


def test_an_interval_stands_around_every_ceiling() -> None:
    for found in (
        diagnose(sleeping({"sleep": 1.0})),
        diagnose(evidence(row("read.files"), busy(), busy(segment=2, service_ms=9.0), step())),
    ):
        assert 1.0 <= found.ceiling.low <= found.ceiling.value <= found.ceiling.high


@pytest.mark.parametrize("tail", [True, False])
def test_a_long_tail_gets_its_advice(tail: bool) -> None:
    found = diagnose(sleeping({"sleep": 1.0}, p99_ms=400.0 if tail else 12.0))
    assert any("in_order" in line for line in found.advice) is tail
