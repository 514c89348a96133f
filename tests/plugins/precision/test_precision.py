"""Single precision, and bfloat16 that cannot be off without anybody noticing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from stoker.errors import PrecisionError
from stoker.parameters import faults
from stoker.plugins import host
from stoker.session import StepContext
from stoker.task import Task
from stoker.train import TrainSession
from stoker_plugins.precision import Bf16, Fp32, autocast

CPU = torch.device("cpu")


class Hiding(nn.Module):
    """Computes its inner model with autocast turned off."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.hides = True

    def forward(self, x: torch.Tensor) -> Any:
        with torch.autocast("cpu", enabled=not self.hides):
            return self.inner(x.float())


class Attending(nn.Module):
    """A model whose only product is an attention, which returns a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 1, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.attention(x[:, None], x[:, None], x[:, None])[0]
        return y


class Functional(nn.Module):
    """A model with a product that no module of its own computes."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


def run(session: Any, model: nn.Module, x: torch.Tensor | None = None) -> torch.Tensor:
    with session.autocast():
        y: torch.Tensor = model(torch.ones(2, 4) if x is None else x)
    return y


def hooks(model: nn.Module) -> int:
    return sum(len(module._forward_hooks) for module in model.modules())


def test_they_are_found_by_name() -> None:
    assert host().policy_class("precision", "fp32") is Fp32
    assert host().policy_class("precision", "bf16") is Bf16
    assert list(faults(Bf16(-1))) == ["probe_every=-1: allowed is int of at least 0"]


def test_fp32_computes_in_single() -> None:
    model = nn.Linear(4, 2)
    session = Fp32().open(model, CPU)
    assert run(session, model).dtype == torch.float32
    assert session.facts() == {"compute_dtype": "float32"}


@pytest.mark.parametrize(
    "model", [nn.Linear(4, 2), nn.Sequential(nn.Linear(4, 2), nn.Softmax(1)), Attending()]
)
def test_bf16_is_seen_in_the_model_and_then_no_longer_watched(model: nn.Module) -> None:
    session = Bf16().open(model, CPU)
    assert session.facts() == {"compute_dtype": "bfloat16", "compute_verified": False}
    assert hooks(model) == 0
    with session.autocast():
        assert hooks(model) > 0
        model(torch.ones(2, 4))
    assert hooks(model) == 0
    assert session.facts() == {"compute_dtype": "bfloat16", "compute_verified": True}
    with session.autocast():
        assert hooks(model) == 0


def test_autocast_turned_off_inside_the_model_is_named() -> None:
    model = nn.Sequential(Hiding(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))))
    session = Bf16().open(model, CPU)
    said = (
        r"none of the model's 2 products ran in bfloat16: 0.inner.0: Linear \(float32\), "
        r"0.inner.2: Linear \(float32\)"
    )
    with pytest.raises(PrecisionError, match=said):
        run(session, model)
    assert hooks(model) == 0


def test_a_convolution_is_a_product_and_a_single_module_has_a_name() -> None:
    model = nn.Conv2d(1, 1, 3)
    session = Bf16().open(model, CPU)
    with pytest.raises(PrecisionError, match=r"the model itself: Conv2d \(float64\)"):
        run(session, model.double(), torch.ones(1, 1, 4, 4, dtype=torch.float64))


def test_parts_in_another_dtype_are_on_record() -> None:
    model = nn.Sequential(nn.Linear(4, 4), Hiding(nn.Linear(4, 1)))
    session = Bf16().open(model, CPU)
    run(session, model)
    assert session.facts()["other_dtypes"] == {"1.inner: Linear": "float32"}


def test_a_model_without_modules_that_prove_it_is_not_called_verified() -> None:
    model = Functional()
    session = Bf16().open(model, CPU)
    for _ in range(5):
        assert run(session, model).dtype == torch.bfloat16
    assert session.facts() == {"compute_dtype": "bfloat16", "compute_verified": False}


def test_a_first_pass_that_runs_no_product_leaves_the_check_to_the_next() -> None:
    model = Hiding(nn.Linear(4, 1))
    session = Bf16().open(model, CPU)
    with session.autocast():
        torch.ones(2) + 1
    with pytest.raises(PrecisionError, match="inner: Linear"):
        run(session, model)


def test_an_error_in_the_model_passes_unchanged_and_leaves_no_hook() -> None:
    model = Hiding(nn.Linear(4, 1))
    session = Bf16().open(model, CPU)
    with pytest.raises(RuntimeError, match="shapes"):
        run(session, nn.Sequential(model, nn.Linear(3, 3)))
    assert hooks(model) == 0


@pytest.mark.parametrize(("every", "caught"), [(3, True), (0, False)])
def test_it_is_checked_again_every_so_many_updates(every: int, caught: bool) -> None:
    model = Hiding(nn.Linear(4, 1))
    model.hides = False
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = Bf16(probe_every=every).open(model, CPU)
    run(session, model)
    model.hides = True  # from now on it computes in single precision
    for _ in range(2):
        session.step(optimizer)
        assert run(session, model).dtype == torch.float32
    session.step(optimizer)
    if caught:
        with pytest.raises(PrecisionError):
            run(session, model)
    else:
        run(session, model)


def test_the_next_check_is_due_when_it_was_before_a_checkpoint() -> None:
    model = Hiding(nn.Linear(4, 1))
    model.hides = False
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    first = Bf16(probe_every=3).open(model, CPU)
    first.step(optimizer)
    first.step(optimizer)
    second = Bf16(probe_every=3).open(model, CPU)
    second.load_state_dict(first.state_dict())
    run(second, model)
    model.hides = True
    run(second, model)
    second.step(optimizer)
    with pytest.raises(PrecisionError):
        run(second, model)


@pytest.mark.parametrize("device", ["cuda", "mps", "meta", "nonsense"])
def test_a_device_without_autocast_is_refused_before_the_start(device: str) -> None:
    here = torch.accelerator.current_accelerator()
    if here is not None and here.type == device:
        pytest.skip("this machine has it")
    (problem,) = Bf16().check(device)
    assert repr(device) in problem
    assert "precision='fp32'" in problem
    if device != "nonsense":
        with pytest.raises(PrecisionError, match=r"precision.bf16 cannot take effect"):
            Bf16().open(nn.Linear(1, 1), torch.device(device))


def test_the_cpu_has_it() -> None:
    assert list(Bf16().check("cpu")) == []


def test_a_silently_disabled_autocast_is_an_error(monkeypatch: Any) -> None:
    def off(*given: Any, **named: Any) -> torch.autocast:
        return real(*given, **{**named, "enabled": False})

    real = torch.autocast
    monkeypatch.setattr(torch, "autocast", off)
    with pytest.raises(PrecisionError, match="came out as float32"):
        Bf16().open(nn.Linear(1, 1), CPU)


@dataclass
class Target:
    """A loss that first asks the model itself for its target, as self-training does."""

    model: nn.Module

    def __call__(self, model: Any, batch: Any) -> tuple[torch.Tensor, int]:
        with torch.no_grad():
            target = model(batch)
        return (model(batch) - target + 1).float().square().sum(), len(batch)


@pytest.mark.parametrize("cache_is_safe", [None, False])
def test_B41_no_grad_pass_before_the_real_one_loses_no_gradient(
    cache_is_safe: bool | None, monkeypatch: Any
) -> None:
    if cache_is_safe is not None:
        monkeypatch.setattr(autocast, "_cache_keeps_gradients", lambda device, dtype: cache_is_safe)
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 1))
    task = Task(
        model=lambda: model,
        loss=Target(model),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    )
    session = TrainSession(task, StepContext(CPU, 0, Bf16()))
    reached: set[str] = set()
    for name, parameter in model.named_parameters():
        parameter.register_post_accumulate_grad_hook(lambda _, name=name: reached.add(name))
    assert session(torch.randn(3, 4)).facts["compute_dtype"] == "bfloat16"
    assert reached == {name for name, _ in model.named_parameters()}


def test_B41_the_weight_cache_is_on_where_it_keeps_gradients(monkeypatch: Any) -> None:
    for keeps in (True, False):
        monkeypatch.setattr(autocast, "_cache_keeps_gradients", lambda device, dtype, k=keeps: k)
        with Bf16().open(nn.Linear(4, 2), CPU).autocast():
            assert torch.is_autocast_cache_enabled() == keeps


def test_B41_a_cache_that_cuts_gradients_is_found_out(monkeypatch: Any) -> None:
    kept = torch.no_grad

    class Leaking(kept):
        """A no_grad whose effect outlasts it, as that of a cached weight without a graph."""

        def __exit__(self, *error: Any) -> None:
            super().__exit__(*error)
            torch.set_grad_enabled(False)

    assert autocast._cache_keeps_gradients(CPU, torch.bfloat16) in (True, False)
    monkeypatch.setattr(torch, "no_grad", Leaking)
    assert not autocast._cache_keeps_gradients(CPU, torch.bfloat16)
    assert torch.is_grad_enabled()
