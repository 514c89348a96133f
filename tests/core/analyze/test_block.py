"""The block that people paste: small, without colour or folders, the verdict first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stoker.analyze.block import LINES, block, stage_lines, wrapped
from stoker.analyze.diagnose import diagnose
from stoker.analyze.evidence import HostUse, Rate

from .evidences import evidence, report, row, step

VERSIONS = {
    "stoker": "0.1.0",
    "torch": "2.13.0+cpu",
    "python": "3.11.7",
    "machine": "Linux x86_64, Some Processor 9000",
}


def text(found: Any, command: str = "stoker analyze photos") -> str:
    return block(diagnose(found), found, found.windows[-1], VERSIONS, command)


@pytest.mark.parametrize("stages", [0, 3, 9])
@pytest.mark.parametrize("facts", [0, 12])
def test_it_fits_25_lines_of_80_columns(stages: int, facts: int) -> None:
    rows = [row("read.files")]
    rows += [
        row(f"augment.a_stage_with_a_very_long_name_{i}", segment=i + 1, service_ms=12345.678)
        for i in range(stages)
    ]
    found = evidence(
        *rows,
        step(),
        loader_alone=Rate(1234567.8, 1e6, 2e6),
        step_alone=Rate(9.9, 9.0, 10.0),
        cautions=["something long to be careful about " * 4] * facts,
    )
    lines = text(found, "stoker analyze " + "--set a.b=c " * 20).splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in "".join(lines)
    for shown in rows:
        assert any(line.startswith(shown.name[:8]) for line in lines)


def test_verdict_prediction_proof_table_footer_come_in_this_order() -> None:
    found = evidence(
        row("read.files"),
        row("decode.image", segment=1, service_ms=10.0, output_wait_share=0.0),
        step(),
        causes={1: {"sleep": 1.0}},
    )
    lines = text(found).splitlines()
    starts = ["decode.image waits", "Ceiling without", "Proven: no", "Now 100"]
    for line, start in zip(lines, starts, strict=False):
        assert line.startswith(start)
    assert lines[-1] == "$ stoker analyze photos"
    assert "stoker 0.1.0, torch 2.13.0+cpu, Python 3.11.7" in lines[-2]
    assert "Used 0.5 of 4 cores, others 0.0; Some Processor 9000" in lines[-3]


def test_unknown_is_a_dash_and_never_zero() -> None:
    rows = [row("read.files", runqueue_ms=None, blocked_ms=None, service_ms=None)]
    assert stage_lines(rows)[1].split()[3:9].count("-") >= 4
    found = evidence(*rows, step(), host=HostUse(2.0))
    assert "cores unknown" in text(found)


def test_notes_wrap_with_their_mark() -> None:
    lines = wrapped("- ", "word " * 30)
    assert lines[0].startswith("- word")
    assert all(line.startswith("  word") for line in lines[1:])


def test_an_undetermined_verdict_makes_no_prediction() -> None:
    found = replace(evidence(row("read.files"), step()), windows=[report(row("r"), step())])
    assert "Ceiling" not in text(found)
