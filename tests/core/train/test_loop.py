"""The training step."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from stoker.errors import UsageError
from stoker.policy import Memory
from stoker.train import TrainSession
from tests.core.train.helpers import (
    Pieces,
    Recording,
    Several,
    batch,
    context,
    joined,
    mlp,
    sgd,
    squared_error,
    task,
    weights,
)

# Masks that leave another number of valid items in every micro-batch, none in one of them.
MASKS = [[1, 1, 1, 1, 1, 0], [0, 0, 1, 0, 0, 0], [1, 0, 1, 1], [0, 1, 1, 1, 1, 1]]


def full_batch_weights(masks: list[list[int]]) -> torch.Tensor:
    """The weights after one plain update on all batches as one: what every split must equal."""
    torch.manual_seed(0)
    model = mlp()
    optimizer = sgd(model.parameters())
    total, count = squared_error(model, joined([batch(m, i) for i, m in enumerate(masks)]))
    (total / count).backward()
    optimizer.step()
    return weights(model)


@pytest.mark.parametrize(
    "memory",
    [
        [Several(4)],
        [Several(4), Pieces(1)],
        [Several(4), Pieces(2)],
        [Several(4), Pieces(4)],
        [Several(4), Pieces(100)],
    ],
)
def test_accumulated_batches_equal_one_batch_with_masked_items(memory: list[Memory]) -> None:
    session = TrainSession(task(), context(*memory))
    outcomes = [session(batch(mask, seed)) for seed, mask in enumerate(MASKS)]
    assert [outcome.updated for outcome in outcomes] == [False, False, False, True]
    torch.testing.assert_close(weights(session.model), full_batch_weights(MASKS))


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_micro_batches_equal_the_whole_batch(size: int) -> None:
    session = TrainSession(task(), context(Pieces(size)))
    outcome = session(batch(MASKS[0]))
    assert (outcome.samples, outcome.updated) == (6, True)
    torch.testing.assert_close(weights(session.model), full_batch_weights(MASKS[:1]))


def test_a_whole_batch_equals_the_plain_loop_bit_for_bit() -> None:
    session = TrainSession(task(), context())
    session(batch(MASKS[0]))
    assert torch.equal(weights(session.model), full_batch_weights(MASKS[:1]))


@pytest.mark.parametrize("size", [None, 2])
def test_the_loss_is_the_mean_over_the_batchs_valid_items(size: int | None) -> None:
    session = TrainSession(task(), context(*([Pieces(size)] if size else [])))
    total, count = squared_error(session.model, batch(MASKS[0]))
    loss = session(batch(MASKS[0])).loss
    torch.testing.assert_close(loss, (total / count).detach())
    assert not loss.requires_grad


@pytest.mark.parametrize(("batches", "updates"), [(10, 3), (2, 1), (4, 1)])
def test_B44_a_short_last_window_is_divided_by_what_it_has(batches: int, updates: int) -> None:
    masks = [MASKS[i % 4] for i in range(batches)]
    moved: list[int] = []
    session = TrainSession(
        task(
            schedule=lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda n: moved.append(n) or 1)
        ),
        context(Several(4)),
    )
    outcomes = [session(batch(mask, seed)) for seed, mask in enumerate(masks)]
    last = session.end_epoch()
    assert (last is not None) == bool(batches % 4)
    counted = sum(outcome.updated for outcome in [*outcomes, *([last] if last else [])])
    assert (counted, session.updates, moved) == (updates, updates, list(range(updates + 1)))

    plain = TrainSession(task(), context())
    for start in range(0, batches, 4):
        window = range(start, min(start + 4, batches))
        plain(joined([batch(masks[seed], seed) for seed in window]))
    torch.testing.assert_close(weights(session.model), weights(plain.model))


def test_B44_nothing_is_left_over_for_the_next_epoch() -> None:
    session = TrainSession(task(), context(Several(4)))
    session(batch(MASKS[0]))
    session.end_epoch()
    assert session.end_epoch() is None
    assert all(p.grad is None for p in session.model.parameters())
    assert [session(batch(MASKS[0])).updated for _ in range(4)] == [False, False, False, True]


def test_B40_unscaled_once_at_the_windows_end_then_clipped(monkeypatch: Any) -> None:
    recording = Recording()
    clip = torch.nn.utils.clip_grad_norm_

    def clip_and_record(*given: Any, **named: Any) -> torch.Tensor:
        recording.calls.append("clip")
        return clip(*given, **named)

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", clip_and_record)
    clipped = task(max_grad_norm=1.0)
    scaled = TrainSession(clipped, context(Pieces(2), precision=recording))
    scaled.schedule = Schedule(recording.calls)
    plain = TrainSession(clipped, context())
    for seed in range(3):
        # Targets far off make gradients that the clip cuts down.
        big = batch([1, 1, 0, 1, 1, 1, 1, 1], seed)
        big["y"] = big["y"] + 100
        recording.calls.clear()
        outcome = scaled(big)
        order = ["backward"] * 4 + ["unscale", "clip", "step", "schedule"]
        assert recording.calls == order
        reference = plain(big)
        assert reference.facts["grad_norm"] > 1
        torch.testing.assert_close(outcome.facts["grad_norm"], reference.facts["grad_norm"])
    torch.testing.assert_close(weights(scaled.model), weights(plain.model))


class Schedule:
    def __init__(self, calls: list[str]) -> None:
        self.calls = calls

    def step(self) -> None:
        self.calls.append("schedule")


@pytest.mark.parametrize("fused", [False, True])
def test_B38_S12_a_skipped_update_moves_neither_schedule_nor_counters(fused: bool) -> None:
    precision = Recording(skips=(0, 1))
    session = TrainSession(
        task(
            optimizer=lambda p: torch.optim.AdamW(p, lr=1.0, fused=fused),
            schedule=lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda n: 0.5**n),
        ),
        context(precision=precision),
    )
    before = weights(session.model)
    skipped = [session(batch([1, 1, 1], seed)) for seed in range(2)]
    assert [(o.updated, o.facts["skipped"]) for o in skipped] == [(False, True)] * 2
    assert (session.updates, session.skipped) == (0, 2)
    assert session.schedule.get_last_lr() == [1.0]
    assert torch.equal(weights(session.model), before)
    assert not session.optimizer.state
    assert all(p.grad is None for p in session.model.parameters()), "nothing is carried over"

    done = session(batch([1, 1, 1], 2))
    assert (done.updated, done.facts["skipped"]) == (True, False)
    assert (session.updates, session.schedule.get_last_lr()) == (1, [0.5])


class Waits(TorchDispatchMode):
    """Counts the reads of a tensor by the host, each of which waits for a device."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):
        waits = (torch.ops.aten._local_scalar_dense, torch.ops.aten.nonzero)
        self.count += function.overloadpacket in waits
        return function(*args, **(kwargs or {}))


def test_a_step_never_waits_for_the_device() -> None:
    session = TrainSession(
        task(
            max_grad_norm=1.0,
            optimizer=lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
            schedule=lambda o: torch.optim.lr_scheduler.StepLR(o, 1),
        ),
        context(Several(2), Pieces(2)),
    )
    with Waits() as waits:
        torch.ones(()).item()
        assert waits.count == 1, "the counter counts"
        for seed in range(3):
            session(batch(MASKS[0], seed))
        session.end_epoch()
    assert session.updates == 2
    assert waits.count == 1


def test_a_batch_of_masked_items_alone_is_defined() -> None:
    session = TrainSession(task(), context(Pieces(2)))
    before = weights(session.model)
    assert session(batch([0, 0, 0])).loss == 0
    assert torch.equal(weights(session.model), before)


def test_counts_may_be_plain_numbers() -> None:
    def loss(model: Any, batch: Any) -> tuple[torch.Tensor, int]:
        total, count = squared_error(model, batch)
        return total, int(count)

    session = TrainSession(task(loss=loss), context(Several(4), Pieces(2)))
    for seed, mask in enumerate(MASKS):
        session(batch(mask, seed))
    torch.testing.assert_close(weights(session.model), full_batch_weights(MASKS))


def losses(seed: int) -> list[float]:
    def model() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 1))

    def loss(model: Any, batch: Any) -> tuple[torch.Tensor, int]:
        errors = model(batch["x"].float()) - batch["y"].float()
        return errors.square().sum(), len(errors)

    session = TrainSession(task(model=model, loss=loss), context(seed=seed))
    return [float(session(batch([1] * 16, i % 4)).loss) for i in range(60)]


def test_training_lowers_the_loss_and_repeats_bit_for_bit() -> None:
    first = losses(3)
    assert sum(first[-4:]) < 0.7 * sum(first[:4])
    assert losses(3) == first
    assert losses(4) != first


def test_parts_that_do_not_go_together_are_refused_at_once() -> None:
    wrong = task(separable=False, optimizer=None)
    with pytest.raises(UsageError, match=r"optimizer=.*test.pieces\(size=2\) adds up"):
        TrainSession(wrong, context(Pieces(2)))


def test_an_optimizer_that_leaves_parameters_out_is_refused_by_their_names() -> None:
    with pytest.raises(UsageError, match=r"leaves out 2 of 4 .*\(2.weight, 2.bias\)"):
        TrainSession(task(optimizer=lambda p: sgd(p[:2])), context())


def test_frozen_parameters_are_not_handed_to_the_optimizer() -> None:
    def frozen() -> nn.Module:
        model = mlp()
        model[0].requires_grad_(False)
        return model

    session = TrainSession(task(model=frozen), context(Pieces(2)))
    assert len(session.optimizer.param_groups[0]["params"]) == 2
    assert session(batch([1, 1, 1])).updated
    with pytest.raises(UsageError, match="nothing to train"):
        TrainSession(task(model=lambda: mlp().requires_grad_(False)), context())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"optimizer": lambda p: None}, "Task.optimizer returned a NoneType"),
        (
            {"schedule": torch.optim.lr_scheduler.ReduceLROnPlateau},
            "Task.schedule returned ReduceLROnPlateau",
        ),
    ],
)
def test_factories_that_make_something_else_are_refused(changes: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        TrainSession(task(**changes), context())
