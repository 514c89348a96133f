"""Numbers as people read them, and the table of stages."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.measure.snapshot import Report, StageRow
from stoker.measure.table import HEADER, cells, duration, fates, number, table

ROW = StageRow(
    "read.files", "read", 0, "thread", 2, 100, 0, 1234.6, 12.34, 1.5, 20.0, 0.25, None, None,
    0.256, 0.004, 1.0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (None, "-"),
        (0, "0 s"),
        (4e-7, "0.40 ns"),
        (1e-6, "1.00 ns"),
        (9.994e-4, "999 ns"),
        (9.996e-4, "1.00 µs"),
        (0.0123, "12.3 µs"),
        (0.9996, "1.00 ms"),
        (1.0, "1.00 ms"),
        (9.996, "10.0 ms"),
        (12.34, "12.3 ms"),
        (999.4, "999 ms"),
        (999.9, "1.00 s"),
        (59_000, "59.0 s"),
        (90_000, "1.50 min"),
        (3_600_000, "1.00 h"),
        (5_000_000, "1.39 h"),
        (3.6e9, "1,000 h"),
    ],
)
def test_a_duration_has_three_digits_and_its_unit(milliseconds: float | None, text: str) -> None:
    assert duration(milliseconds) == text


@given(st.floats(1e-6, 1e9))
def test_a_duration_is_never_in_powers_of_ten_and_says_what_it_is(milliseconds: float) -> None:
    value, unit = duration(milliseconds).split()
    sizes = {"h": 3.6e6, "min": 6e4, "s": 1e3, "ms": 1.0, "µs": 1e-3, "ns": 1e-6}
    assert "e" not in value
    assert float(value.replace(",", "")) * sizes[unit] == pytest.approx(milliseconds, rel=0.006)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.004, "0.004"),
        (0.0512, "0.051"),
        (0.25, "0.25"),
        (1, "1.0"),
        (12.34, "12.3"),
        (99.96, "100"),
        (1234.6, "1,235"),
    ],
)
def test_a_small_rate_is_not_zero(value: float, text: str) -> None:
    assert number(value) == text


def test_a_row_as_text() -> None:
    assert cells(ROW) == (
        "read.files", "read", "2 thread", "1,235", "1.50 ms", "250 µs", "20.0 ms", "12.3",
        "26%", "0%",
    )  # fmt: skip
    inline = dataclasses.replace(ROW, executor="inline", service_ms=None, p99_ms=None, cpu_ms=None)
    assert cells(inline)[2:7] == ("inline", "1,235", "-", "-", "-")


@pytest.mark.parametrize(
    ("ledger", "text"),
    [
        ({"read": 3, "delivered": 3, "balanced": True}, "read 3 = delivered 3"),
        ({"read": 0, "delivered": 0, "balanced": True}, "read 0 = delivered 0"),
        (
            {"read": 1234, "expanded": 6, "delivered": 1200, "dropped_tail": 40, "balanced": True},
            "read 1,234 + expanded 6 = delivered 1,200 + dropped tail 40",
        ),
        (
            {"read": 5, "delivered": 3, "filtered": 0, "balanced": False},
            "read 5 = delivered 3 (not balanced)",
        ),
    ],
)
def test_a_ledger_as_a_line(ledger: dict[str, Any], text: str) -> None:
    assert fates(ledger) == text


def test_the_table_lines_up() -> None:
    long = dataclasses.replace(ROW, name="augment.random_resized_crop", items_per_s=1.0)
    ledger = {"read": 3, "delivered": 3, "balanced": True}
    report = Report("photos", 1.0, (ROW, long), ledger, 1.0, 0.0, 0)
    head, first, second, last = table(report).splitlines()
    assert head.split("  ")[0] == "stage"
    assert len({line.rindex("  ") for line in (first, second)}) == 1
    assert [len(line) for line in (first, second)] == [len(head)] * 2
    assert all(name in head for name in HEADER)
    assert last == "ledger: read 3 = delivered 3"
