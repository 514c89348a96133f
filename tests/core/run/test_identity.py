"""What has to be the same for a run to go on."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from stoker import Pipeline
from stoker.engine.plan import make_plan
from stoker.jsonable import to_json
from stoker.run.identity import differences, identity
from stoker_plugins import augment
from tests.core.run.training import Noisy, job
from toys import CountStep, Lists, Numbers


def of(pipeline: Pipeline) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(to_json(identity(make_plan(pipeline))))
    return made


def scaled(x: int, by: int) -> int:
    return x * by


def test_it_is_the_same_for_every_making_of_a_pipeline() -> None:
    made = [
        of(job().with_stage(1, augment.Apply(partial(scaled, by=2), field="x"))) for _ in range(2)
    ]
    assert made[0] == made[1]
    assert "0x" not in to_json(made[0])
    assert list(differences(made[0], made[1])) == []
    other = of(job().with_stage(1, augment.Apply(partial(scaled, by=3), field="x")))
    (line,) = differences(made[0], other)
    assert "by=2" in line
    assert "by=3" in line


@pytest.mark.parametrize(
    "changed",
    [
        job(num_workers=5),
        job(epochs=9, max_steps=3, max_time=3.0, prefetch_batches=9, prefetch_bytes=99),
        job(save_every_steps=3, keep_checkpoints=9, save_every_minutes=1.0),
        job(evaluate=None),
    ],
)
def test_how_it_is_run_does_not_count(changed: Pipeline) -> None:
    assert of(changed) == of(job())


def test_only_what_differs_is_told_also_of_a_long_call() -> None:
    many = tuple(range(1000))
    one = of(Pipeline("p", Numbers(2000, fail_at=many), Lists(), CountStep()))
    other = of(Pipeline("p", Numbers(2000, fail_at=(9, *many)), Lists(), CountStep()))
    (line,) = differences(one, other)
    assert line.startswith("toy.numbers: ")
    assert len(line) < 200
    assert list(differences(of(job()), of(job().with_stage(1, Noisy(0.5))))) == [
        "training.noisy: amount=0.1) is amount=0.5) now"
    ]
