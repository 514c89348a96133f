"""The ledger: every count is added, and a lost sample is an error."""

from __future__ import annotations

from dataclasses import asdict, fields

import pytest

from stoker.engine.ledger import Ledger
from stoker.errors import LedgerError


def test_adding_adds_every_count() -> None:
    one = Ledger(*range(1, len(fields(Ledger)) + 1))
    other = Ledger(*(10 * number for number in range(1, len(fields(Ledger)) + 1)))
    one.add(other)
    assert asdict(one) == {
        field.name: 11 * number for number, field in enumerate(fields(Ledger), 1)
    }


def test_it_balances_when_every_sample_has_one_fate() -> None:
    fine = Ledger(
        10, expanded=3, delivered=7, filtered=2, quarantined=1, failed=1, dropped_tail=1, unused=1
    )
    fine.check()
    assert fine.to_dict()["balanced"] is True
    assert str(fine).startswith("read 10 + expanded 3 = delivered 7 + filtered 2")


@pytest.mark.parametrize("delivered", [9, 11])
def test_a_lost_or_doubled_sample_is_an_error(delivered: int) -> None:
    with pytest.raises(LedgerError, match=f"off by {10 - delivered}"):
        Ledger(10, delivered=delivered).check()
