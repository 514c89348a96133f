from __future__ import annotations

import dataclasses

import pytest
import torch

from stoker.parameters import faults
from stoker.rng import Rng
from stoker.stages import Surroundings, Worker
from stoker.testing import apply, check_stage
from stoker_plugins.transfer import pin as pin_module
from stoker_plugins.transfer import target
from stoker_plugins.transfer.pin import Pin
from stoker_plugins.transfer.to_device import ToDevice

NO_ACCELERATOR = pytest.mark.skipif(
    torch.accelerator.is_available(), reason="says what happens without an accelerator"
)


def batch():
    return {"__key__": ["a"], "image": torch.zeros(1, 2, 2, 3, dtype=torch.uint8)}


def problems(stage):
    return [*faults(stage), *stage.check(Surroundings((stage,), 0))]


class Pinnable:
    """Pins itself."""

    def __init__(self):
        self.pinned = False

    def pin_memory(self):
        pinned = Pinnable()
        pinned.pinned = True
        return pinned


class Copied:
    """Says how it was asked to move."""

    def __init__(self):
        self.asked = None

    def to(self, device, non_blocking=False):
        self.asked = (str(device), non_blocking)
        return self


class Plain:
    """Moves, but knows no `non_blocking`."""

    def __init__(self):
        self.asked = None

    def to(self, device):
        self.asked = str(device)
        return self


@pytest.fixture
def pretend(monkeypatch):
    """An accelerator that is there by name, and pinning that only notes what it pinned."""
    noted = []
    monkeypatch.setattr(target, "accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(pin_module, "accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda self: any(self is t for t in noted))

    def pin_memory(self):
        noted.append(self.clone())
        return noted[-1]

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin_memory)
    return noted


def test_contract():
    check_stage(Pin())
    check_stage(ToDevice())
    assert (Pin.kind, Pin.resource) == ("pin", "cpu")
    assert (ToDevice.kind, ToDevice.resource) == ("copy", "device")


# -- pin -------------------------------------------------------------------------------


@NO_ACCELERATOR
@pytest.mark.parametrize("stage", [Pin(), Pin(enabled=False), Pin(device="cpu"), Pin(True)])
def test_without_an_accelerator_batches_pass_untouched(stage):
    given = batch()
    assert apply(stage, given) is given
    assert stage.apply(given, Rng(0, "test")) is given


def test_pins_every_tensor_where_an_accelerator_is_the_target(pretend):
    given = {**batch(), "own": Pinnable(), "more": [torch.ones(2)]}
    for stage in (Pin(), Pin(True), Pin(device="cuda:0")):
        pretend.clear()
        out = apply(stage, given)
        assert len(pretend) == 2
        assert out["image"] is pretend[0]
        assert out["more"][0] is pretend[1]
        assert out["own"].pinned
        assert out["__key__"] is given["__key__"]
    assert not given["own"].pinned


def test_what_is_pinned_already_passes(pretend):
    once = apply(Pin(), batch())
    assert apply(Pin(), once) is once
    elsewhere = {"x": torch.zeros(1, device="meta")}
    assert apply(Pin(), elsewhere) is elsewhere


@pytest.mark.parametrize("stage", [Pin(enabled=False), Pin(device="cpu"), Pin(device="meta")])
def test_no_pinning_where_it_is_no_use(pretend, stage):
    given = batch()
    assert apply(stage, given) is given
    assert not pretend


def test_objects_that_can_only_be_copied_stay_pageable(pretend):
    given = {"x": Copied()}
    given["x"].held = torch.zeros(1)
    assert apply(Pin(), given) is given


@NO_ACCELERATOR
def test_insisting_on_pinning_without_an_accelerator_is_a_problem():
    (problem,) = problems(Pin(enabled=True))
    assert "no accelerator" in problem
    assert not problems(Pin())
    assert not problems(Pin(enabled=False))


def test_insisting_on_pinning_for_another_target_is_a_problem(pretend):
    (problem,) = problems(Pin(enabled=True, device="cpu"))
    assert "the target is cpu" in problem
    assert not problems(Pin(enabled=True))


# -- copy ------------------------------------------------------------------------------


def test_on_the_cpu_batches_pass_untouched():
    given = batch()
    assert apply(ToDevice("cpu"), given) is given
    assert ToDevice("cpu").apply(given, Rng(0, "test")) is given


@NO_ACCELERATOR
def test_auto_is_the_cpu_without_an_accelerator():
    given = batch()
    assert apply(ToDevice(), given) is given


def test_copies_every_tensor():
    given = {**batch(), "more": (torch.ones(2), "text")}
    out = apply(ToDevice("meta"), given)
    assert out["image"].device.type == "meta"
    assert out["image"].shape == (1, 2, 2, 3)
    assert out["more"][0].device.type == "meta"
    assert out["more"][1] == "text"
    assert out["__key__"] is given["__key__"]
    assert given["image"].device.type == "cpu"


def test_the_device_is_looked_up_once_a_worker(monkeypatch):
    asked = []
    original = target.accelerator
    monkeypatch.setattr(target, "accelerator", lambda: asked.append(1) or original())
    with ToDevice("auto").open(Worker()) as copy:
        for _ in range(3):
            copy(batch(), Rng(0, "test"))
    assert len(asked) == 1


def test_a_copy_keeps_the_memory_format():
    images = torch.zeros(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    out = apply(ToDevice("meta"), {"image": images})["image"]
    assert out.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("non_blocking", [True, False])
def test_non_blocking_reaches_those_who_know_it(non_blocking):
    given = {"a": Copied(), "b": Plain()}
    apply(ToDevice("meta", non_blocking=non_blocking), given)
    assert given["a"].asked == ("meta", non_blocking)
    assert given["b"].asked == "meta"


def test_the_plan_can_set_the_device():
    stage = dataclasses.replace(ToDevice(), device="meta")
    assert apply(stage, batch())["image"].device.type == "meta"


@pytest.mark.parametrize("stage", [ToDevice("gpu"), Pin(device="gpu")])
def test_unknown_devices_are_problems(stage):
    (problem,) = problems(stage)
    assert "'gpu' is no torch device; allowed is auto, or one of: " in problem
    assert "cpu" in problem


@NO_ACCELERATOR
def test_devices_that_are_not_here_are_problems():
    (problem,) = problems(ToDevice("cuda"))
    assert problem == ("device='cuda' is not on this machine; allowed is auto, or one of: cpu")
    assert not problems(ToDevice("cpu"))
    assert not problems(ToDevice("meta"))


def test_the_accelerator_here_is_allowed(pretend):
    assert not problems(ToDevice("cuda:1"))
    (problem,) = problems(ToDevice("xpu"))
    assert "one of: cuda, cpu" in problem


@pytest.mark.gpu
def test_on_an_accelerator():
    if not torch.accelerator.is_available():
        pytest.skip("needs an accelerator")
    given = {"x": torch.arange(1 << 20)}
    pinned = apply(Pin(True), given)
    assert pinned["x"].is_pinned()
    moved = apply(ToDevice(), pinned)
    del pinned
    assert moved["x"].device.type == torch.accelerator.current_accelerator().type
    assert moved["x"].sum().item() == given["x"].sum().item()
