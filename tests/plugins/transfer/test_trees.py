from __future__ import annotations

import collections
import dataclasses
import enum
import types
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from stoker_plugins.transfer.trees import map_tree


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass
class Plain:
    x: Any
    note: str = "n"
    made: Any = dataclasses.field(init=False, default=None)


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: Any
    inner: Any = None

    def __post_init__(self):
        if self.x == "refused":
            raise AssertionError("the constructor ran again")


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    x: Any
    y: Any = 1


class Own:
    """Moves itself."""

    def __init__(self, x):
        self.x = x
        self.calls = 0

    def to(self, device):
        self.calls += 1
        moved = Own(self.x.to(device))
        moved.calls = self.calls
        return moved


class Holder:
    """Holds a tensor and offers no way to move it."""

    def __init__(self, x):
        self.x = x


class SlotHolder:
    __slots__ = "x"

    def __init__(self, x):
        self.x = x


class Colour(enum.Enum):
    RED = 1


class Words(dict):
    """A dict of people's own."""


class Row(list):
    """A list of people's own."""


def move(tree, strict=True):
    return map_tree(tree, "to", lambda value: value.to("meta"), strict=strict)


def moved(tensor):
    return isinstance(tensor, torch.Tensor) and tensor.device.type == "meta"


def test_B36_types_are_kept_and_every_tensor_is_moved():
    t = torch.zeros
    tree = {
        "dict": {"x": t(1)},
        "list": [t(2), "text"],
        "tuple": (t(3), 1),
        "named": Pair(t(4), [t(5)]),
        "plain": Plain(t(6)),
        "frozen": Frozen("id", Frozen(t(7))),
        "slotted": Slotted(t(8)),
        "ordered": collections.OrderedDict(a=t(9)),
        "default": collections.defaultdict(list, a=t(10)),
        "words": Words(a=t(11)),
        "row": Row([t(12)]),
        "proxy": types.MappingProxyType({"a": t(13)}),
        "user": collections.UserDict({"a": t(14)}),
    }
    out = move(tree)
    assert [type(value) for value in out.values()] == [type(value) for value in tree.values()]
    assert moved(out["dict"]["x"])
    assert moved(out["list"][0])
    assert out["list"][1] == "text"
    assert moved(out["tuple"][0])
    assert out["tuple"][1] == 1
    assert moved(out["named"].left)
    assert moved(out["named"].right[0])
    assert moved(out["plain"].x)
    assert out["plain"].note == "n"
    assert moved(out["frozen"].inner.x)
    assert moved(out["slotted"].x)
    assert out["slotted"].y == 1
    assert out["default"].default_factory is list
    assert all(moved(out[name]["a"]) for name in ("ordered", "default", "words", "proxy", "user"))
    assert moved(out["row"][0])


def test_B36_the_tree_given_is_not_changed():
    tree = {"a": [torch.zeros(1)], "b": Plain(torch.zeros(1)), "c": Words(x=torch.zeros(1))}
    move(tree)
    assert not moved(tree["a"][0])
    assert not moved(tree["b"].x)
    assert not moved(tree["c"]["x"])


def test_B36_constructors_do_not_run_again():
    value = Frozen(torch.zeros(1))
    object.__setattr__(value, "inner", torch.zeros(2))
    out = move(value)
    assert moved(out.x)
    assert moved(out.inner)
    late = Plain(torch.zeros(1))
    late.made = [torch.zeros(1)]
    late.__dict__["extra"] = "kept"
    out = move(late)
    assert moved(out.made[0])
    assert out.extra == "kept"


def test_B36_a_tensor_that_occurs_twice_is_moved_once():
    calls = []

    def call(value):
        calls.append(value)
        return value.to("meta")

    shared, own = torch.zeros(2), Own(torch.zeros(1))
    tree = {"a": shared, "b": [shared, own], "c": own}
    out = map_tree(tree, "to", call)
    assert len(calls) == 2
    assert out["a"] is out["b"][0]
    assert out["b"][1] is out["c"]


def test_an_unchanged_tree_is_the_same_object():
    array = np.zeros(3)
    tree = {
        "__key__": ["a", "b"], "array": array, "size": torch.Size([1, 2]), "none": None,
        "enum": Colour.RED, "type": int, "tensor class": torch.Tensor, "set": {1, 2},
        "pair": Pair(1, 2), "frozen": Frozen(1), "range": range(3), "dtype": torch.float32,
        "function": move, "module": torch, "holder": Holder([1]),
    }  # fmt: skip
    assert move(tree) is tree
    tree["x"] = torch.zeros(1)
    out = move(tree)
    assert all(out[name] is value for name, value in tree.items() if name != "x")


def test_objects_with_a_method_of_their_own_win():
    own = Own(torch.zeros(1))
    out = move([own])
    assert type(out[0]) is Own
    assert moved(out[0].x)
    assert out[0].calls == 1
    packed = torch.nn.utils.rnn.pack_sequence([torch.zeros(2, 1), torch.zeros(1, 1)])
    assert moved(move({"p": packed})["p"].data)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Holder(torch.zeros(1)), r"batch\['x'\]\[1\] is a .*\.Holder that holds a tensor"),
        (Holder({"deep": [torch.zeros(1)]}), "Holder that holds a tensor"),
        (SlotHolder(torch.zeros(1)), "SlotHolder that holds a tensor"),
        ({torch.zeros(1)}, r"builtins\.set that holds a tensor"),
    ],
)
def test_B36_unknown_types_that_hold_tensors_are_refused(value, words):
    with pytest.raises(TypeError, match=words) as caught:
        move({"x": [1, value]})
    assert "give the class a method to()" in str(caught.value)
    assert move({"x": [1, value]}, strict=False)["x"][1] is value


def test_the_path_names_the_place():
    tree = {"a": Plain([Pair(1, Holder(torch.zeros(1)))])}
    with pytest.raises(TypeError, match=r"batch\['a'\]\.x\[0\]\[1\] is a"):
        move(tree)


def test_a_bare_tensor_is_a_tree():
    assert moved(move(torch.zeros(1)))
    assert move("text") == "text"
