"""The fault suite's report, read."""

from __future__ import annotations

from xml.etree import ElementTree

from bench.faults import outcomes, table

REPORT = """
<testsuites><testsuite>
<testcase classname="tests.faults.test_kills" name="test_one" time="12.34">
<properties><property name="kills" value="25"/></properties></testcase>
<testcase classname="tests.faults.test_kills" name="test_two" time="1">
<failure message="no"/></testcase>
<testcase classname="tests.faults.test_workers" name="test_three" time="0">
<skipped message="not here"/></testcase>
<testcase classname="tests.faults.test_workers" name="test_four" time="0">
<error message="fixture"/></testcase>
</testsuite></testsuites>
"""


def test_a_report_says_what_failed_and_what_was_counted() -> None:
    one, two, three, four = outcomes(ElementTree.fromstring(REPORT))
    assert one == {
        "test": "test_kills: test_one",
        "failed": False,
        "skipped": None,
        "seconds": 12.3,
        "figures": {"kills": "25"},
    }
    assert two["failed"]
    assert four["failed"]
    assert three["skipped"] == "not here"
    text = table({"what": "all", "tests": [one, two], "targets": {}})
    assert "12.3 s  test_kills: test_one  (kills 25)" in text
