"""Evaluation."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from stoker.errors import UsageError
from stoker.train import TrainSession, evaluation
from stoker.train.evaluate import evaluation_mode
from tests.core.train.helpers import batch, context, joined, mlp, squared_error, task, weights


def within(model: Any, batch: Any) -> dict[str, Any]:
    """How many outputs are near: a metric of plain numbers."""
    near = (model(batch["x"]) - batch["y"]).abs() < 1
    return {"near": (int(near.sum()), len(near)), "first": (near[0, 0].double(), 1)}


def test_every_sample_counts_once_also_in_a_ragged_batch() -> None:
    batches = [batch([1] * n, seed) for seed, n in enumerate((4, 4, 3))]
    with evaluation(task(metrics=within), context(seed=7)) as session:
        outcomes = [session(each) for each in batches]
        results = session.results()
    assert [outcome.samples for outcome in outcomes] == [4, 4, 3]
    assert not any(outcome.updated for outcome in outcomes)
    whole = joined(batches)
    total, count = squared_error(session.model, whole)
    assert count == 11
    assert list(results) == ["loss", "near", "first"]
    assert results["loss"] == pytest.approx(float(total.detach() / count), rel=1e-12)
    assert results["near"] == within(session.model, whole)["near"][0] / 11
    assert all(type(value) is float for value in results.values())


def test_masked_items_do_not_count() -> None:
    masks = [[1, 0, 0, 0], [1, 1, 1, 1]]
    with evaluation(task(), context()) as session:
        for seed, mask in enumerate(masks):
            session(batch(mask, seed))
    total, count = squared_error(session.model, joined([batch(m, i) for i, m in enumerate(masks)]))
    assert session.results()["loss"] == pytest.approx(float(total.detach() / count), rel=1e-12)


def test_nothing_seen_gives_no_results_and_nothing_counted_gives_nan() -> None:
    with evaluation(task(), context()) as session:
        assert session.results() == {}
        session(batch([0, 0]))
        assert math.isnan(session.results()["loss"])


def model_with_a_frozen_part() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 1))
    model[1].eval()
    return model.double()


def modes(model: nn.Module) -> list[bool]:
    return [module.training for module in model.modules()]


def test_every_module_gets_its_own_mode_back() -> None:
    model = model_with_a_frozen_part()
    before = modes(model)
    with evaluation(task(), context(model=model)) as session:
        assert session.model is model
        assert not any(modes(model))
        session(batch([1, 1, 1]))
    assert modes(model) == before == [True, True, False, True, True]


def test_modes_come_back_after_an_error_too() -> None:
    model = model_with_a_frozen_part()
    with pytest.raises(KeyError), evaluation(task(), context(model=model)) as session:
        session({"x": torch.zeros(2, 4, dtype=torch.float64)})
    assert modes(model) == [True, True, False, True, True]


class Merging(nn.Linear):
    """Does work when its mode changes, as adapters do that merge their weights."""

    merged = False

    def train(self, mode: bool = True) -> Any:
        self.merged = not mode
        return super().train(mode)


def test_modules_that_do_more_than_set_a_flag_are_told() -> None:
    model = nn.Sequential(Merging(2, 2))
    with evaluation_mode(model):
        assert model[0].merged
    assert not model[0].merged


def test_training_does_not_depend_on_evaluations() -> None:
    def losses(evaluate: bool) -> list[float]:
        dropping = task(model=lambda: nn.Sequential(mlp(), nn.Dropout(0.5)))
        train = TrainSession(dropping, context(seed=1))
        seen = []
        for seed in range(4):
            seen.append(float(train(batch([1] * 8, seed)).loss))
            if evaluate:
                with evaluation(noisy, context(seed=1, model=train.model)) as session:
                    session(batch([1, 1]))
        return seen

    noisy = task(metrics=lambda model, batch: {"noise": (torch.rand(()), 1)})
    assert losses(evaluate=True) == losses(evaluate=False)


def test_it_changes_no_weight_and_keeps_no_graph() -> None:
    train = TrainSession(task(), context())
    before = weights(train.model)
    with evaluation(task(), context(model=train.model)) as session:
        loss = session(batch([1, 1])).loss
    assert not loss.requires_grad
    assert all(p.grad is None for p in train.model.parameters())
    assert torch.equal(weights(train.model), before)


class Caching(nn.Module):
    """Keeps a table that it made in an evaluation, and trains with it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 1).double()
        self.table: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.table is None:
            self.table = torch.full((1,), 2.0, dtype=torch.float64)
        y: torch.Tensor = self.linear(x) * self.table
        return y


def test_tensors_cached_in_an_evaluation_serve_in_training() -> None:
    train = TrainSession(task(model=Caching), context())
    with evaluation(task(), context(model=train.model)) as session:
        session(batch([1, 1]))
    assert train(batch([1, 1])).updated


def test_alone_it_makes_a_model_by_the_seed() -> None:
    def made(seed: int) -> torch.Tensor:
        with evaluation(task(optimizer=None), context(seed=seed)) as session:
            return weights(session.model)

    assert torch.equal(made(3), made(3))
    assert not torch.equal(made(3), made(4))


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        (lambda model, batch: {"loss": (1, 1)}, "Task.metrics returned 'loss'"),
        (lambda model, batch: {"near": 0.5}, r"Task.metrics\['near'\] returned 0.5"),
    ],
)
def test_metrics_that_are_none_are_refused(metrics: Any, said: str) -> None:
    with evaluation(task(metrics=metrics), context()) as session:
        with pytest.raises(UsageError, match=said):
            session(batch([1, 1]))


def test_sums_go_on_from_a_state() -> None:
    batches = [batch([1] * n, seed) for seed, n in enumerate((4, 4, 3))]
    with evaluation(task(metrics=within), context()) as whole:
        for each in batches:
            whole(each)
        expected = whole.results()
    with evaluation(task(metrics=within), context()) as first:
        first(batches[0])
        state = first.state_dict()
    with evaluation(task(metrics=within), context()) as rest:
        rest.load_state_dict(state)
        for each in batches[1:]:
            rest(each)
        assert rest.results() == expected
