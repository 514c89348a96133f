"""Putting meters around transforms and taking them away."""

from __future__ import annotations

import inspect
import operator
import pickle
import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from stoker.watching import table as t
from stoker.watching.hooks import Hooks, StandIn
from stoker.watching.members import find
from stoker.watching.meter import LOCAL, Meter
from stoker.watching.table import Table

from .loaders import Compose, ModuleScale, Rows, Scale, doubled


@pytest.fixture
def meter() -> Iterator[Meter]:
    meter = Meter(Table.private())
    meter.on, LOCAL.meter = True, meter
    yield meter
    LOCAL.meter = None


def calls(meter: Meter) -> dict[str, int]:
    return {name: cells[t.CALLS] for name, cells in meter.table.slots() if cells[t.CALLS]}


def test_members_are_metered_one_by_one_and_stay_what_they_are(meter: Meter) -> None:
    scale, module = Scale(), ModuleScale()
    rows = Rows(transform=Compose([scale, module, doubled, scale]))
    hooks = Hooks(meter, find(rows), private=False)
    members = rows.transform.transforms  # type: ignore[union-attr]
    assert members[0] is scale
    assert type(members[1]) is ModuleScale
    assert rows.transform(torch.ones(1)).item() == 24.0  # type: ignore[misc]
    assert calls(meter) == {
        "transform[0] Scale": 2,
        "transform[1] ModuleScale": 1,
        "transform[2] doubled": 1,
    }
    hooks.remove()
    assert rows.transform(torch.ones(1)).item() == 24.0  # type: ignore[misc]
    assert sum(calls(meter).values()) == 4
    assert members[2] is doubled
    assert not hasattr(Scale.__call__, "__wrapped__")
    assert "__call__" not in ModuleScale.__dict__


def test_other_instances_and_other_threads_pass_through(meter: Meter) -> None:
    hooks = Hooks(meter, find(Rows(transform=Compose([Scale()]))), private=False)
    Scale()(1.0)
    LOCAL.meter = None
    find(Rows(transform=Compose([Scale()])))[0].value(1.0)
    assert calls(meter) == {}
    hooks.remove()


def test_a_subclass_that_calls_its_base_counts_once(meter: Meter) -> None:
    class Twice(Scale):
        def __call__(self, sample: Any) -> Any:
            return super().__call__(super().__call__(sample))

    rows = Rows(transform=Compose([Scale(), Twice()]))
    hooks = Hooks(meter, find(rows), private=False)
    assert rows.transform(1.0) == 8.0  # type: ignore[misc]
    hooks.remove()
    assert calls(meter) == {"transform[0] Scale": 1, "transform[1] Twice": 1}


def test_what_cannot_be_patched_is_stood_for(meter: Meter) -> None:
    getter = operator.itemgetter(0)
    holder: Any = Rows(transform=Compose((getter, doubled)))
    holder.target_transform = doubled
    before = holder.transform.transforms
    hooks = Hooks(meter, find(holder), private=False)
    assert holder.transform([3]) == 6
    assert holder.target_transform(2) == 4
    assert calls(meter) == {"transform[0] itemgetter": 1, "transform[1] doubled": 2}
    hooks.remove()
    assert holder.transform.transforms == before
    assert [type(one) for one in holder.transform.transforms] == [type(getter), type(doubled)]
    assert holder.target_transform is doubled


def test_a_stand_in_behaves_as_what_it_stands_for() -> None:
    stand_in: Any = StandIn(doubled)
    assert isinstance(stand_in, types.FunctionType)
    assert stand_in == doubled
    assert stand_in == StandIn(doubled)
    assert hash(stand_in) == hash(doubled)
    assert repr(stand_in) == repr(doubled)
    assert stand_in.__name__ == "doubled"
    assert inspect.signature(stand_in) == inspect.signature(doubled)
    assert pickle.loads(pickle.dumps(stand_in)) is doubled
    stand_in.mark = 3
    assert doubled.mark == 3  # type: ignore[attr-defined]
    del stand_in.mark
    assert not hasattr(doubled, "mark")
    assert stand_in(2) == 4


def test_what_somebody_changes_meanwhile_stays_changed(meter: Meter) -> None:
    rows = Rows(transform=Compose([doubled, doubled]))
    hooks = Hooks(meter, find(rows), private=False)
    members: Any = rows.transform.transforms  # type: ignore[union-attr]
    members[0] = abs
    del members[1]
    hooks.remove()
    assert members == [abs]


def test_two_at_once_and_either_may_end_first(meter: Meter) -> None:
    other = Meter(Table.private())
    rows = Rows(transform=Compose([Scale(), doubled]))
    one, two = (Hooks(each, find(rows), private=False) for each in (meter, other))
    rows.transform(1)  # type: ignore[misc]
    one.remove()
    rows.transform(1)  # type: ignore[misc]
    assert calls(meter) == {"transform[0] Scale": 1, "transform[1] doubled": 1}
    two.remove()
    assert not hasattr(Scale.__call__, "__wrapped__")
    assert rows.transform.transforms[1] is doubled  # type: ignore[union-attr]


def test_torchs_own_classes_are_left_alone_beside_a_model(meter: Meter) -> None:
    rows = Rows(transform=Compose([torch.nn.Identity(), torch.nn.Flatten()]))
    hooks = Hooks(meter, find(rows), private=False)
    assert "__call__" not in torch.nn.Identity.__dict__
    rows.transform(torch.ones(1, 1))  # type: ignore[misc]
    assert len(calls(meter)) == 2
    hooks.remove()
    assert type(rows.transform.transforms[0]) is torch.nn.Identity  # type: ignore[union-attr]


def test_a_full_table_leaves_the_rest_unmetered(meter: Meter) -> None:
    rows = Rows(transform=Compose([Scale() for _ in range(30)]))
    more = Rows(transform=Compose([Scale() for _ in range(30)]))
    more.__dict__["augment"] = rows
    hooks = Hooks(meter, find(more), private=False)
    assert meter.cells[t.SLOTS] <= t.SLOT_COUNT
    assert more.transform(1.0) == 2.0**30  # type: ignore[misc]
    hooks.remove()
