"""The plan: everything wrong at once, what is put in, segments and workers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from stoker import Pipeline, Quarantine
from stoker.engine.layout import cut
from stoker.engine.plan import make_plan
from stoker.errors import PlanError
from stoker.pipeline import unique_names
from stoker.sample import Batch
from stoker.stages import BatchMap, Caution, Surroundings
from toys import Add, Copies, CountStep, Draw, KeepEven, Lists, Numbers, Stream, WithOther


@dataclass(frozen=True)
class OnDevice(BatchMap):
    """Lives on the device."""

    name: ClassVar[str] = "toy.on_device"
    kind: ClassVar[str] = "augment"
    resource: ClassVar[Any] = "device"

    def apply(self, batch: Batch, rng: Any) -> Batch:
        return batch


@dataclass(frozen=True)
class OnHost(OnDevice):
    """Lives on the host."""

    name: ClassVar[str] = "toy.on_host"
    resource: ClassVar[Any] = "cpu"


def problems_of(pipeline: Pipeline, **how: Any) -> list[str]:
    with pytest.raises(PlanError) as caught:
        make_plan(pipeline, **how)
    return list(caught.value.problems)


def test_all_problems_are_reported_at_once() -> None:
    pipeline = Pipeline(
        "bad",
        Add(),
        Numbers(-1),
        Lists(2, num_workers=0),
        Draw(),
        CountStep(),
        OnHost(),
        epochs=0,
        device="tpu9",
        on_error=Quarantine(-1),
    )
    text = "\n".join(problems_of(pipeline))
    for part in (
        "epochs=0",
        "budget=-1",
        "device='tpu9'",
        "the first stage must be a source",
        "toy.numbers is a second source",
        "toy.draw works on samples and stands after toy.lists",
        "toy.count is a step and must be the last",
        "n=-1",
        "num_workers=0",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("stages", "problem"),
    [
        ((), "the first stage must be a source"),
        ((Numbers(3), CountStep()), "toy.count needs batches"),
        ((Numbers(3), OnHost()), "toy.on_host works on batches"),
        ((Numbers(3), Lists(2), Lists(2)), "a second collate stage"),
        ((Stream(), WithOther()), "which a stream cannot give"),
        ((Numbers(3), Copies(), WithOther()), "must all be maps"),
        ((Numbers(0), Lists(2)), "has no samples"),
        ((Numbers(3), Lists(4, drop_last=True)), "larger than the data"),
        ((Stream(executor="process"),), "read in order by one reader, which lives in this process"),
        ((Stream(num_workers=2),), "read by one worker"),
    ],
)
def test_a_problem_says_what_is_wrong(stages: Any, problem: str) -> None:
    assert problem in "\n".join(problems_of(Pipeline("bad", *stages)))


def test_unknown_policies_and_bad_evaluations() -> None:
    def broken() -> Pipeline:
        return Pipeline("inner", Numbers(0), Lists(2), CountStep())

    good = (Numbers(4), Lists(2), CountStep())
    assert "did you mean 'precision.bf16'" in problems_of(Pipeline("p", *good, precision="bf17"))[0]
    assert "evaluate: toy.numbers has no samples" in problems_of(
        Pipeline("p", *good, evaluate=broken)
    )
    assert "no step" in problems_of(Pipeline("p", *good, evaluate=Pipeline("e", *good[:2])))[0]
    assert "must be a Pipeline" in problems_of(Pipeline("p", *good, evaluate=lambda: 3))[0]


def test_a_caution_warns_and_does_not_refuse() -> None:
    class Careful(Add):
        def check(self, around: Surroundings) -> Any:
            yield Caution("slow on Mondays")
            assert around.before()[0].kind == "read"

    plan = make_plan(Pipeline("careful", Numbers(3), Careful(), Lists(2)))
    assert plan.cautions == ("toy.add: slow on Mondays",)


def test_a_check_that_raises_is_a_problem_not_a_crash() -> None:
    class Raises(Add):
        def check(self, around: Surroundings) -> Any:
            raise RuntimeError("oops")

    assert "toy.add: its check failed: RuntimeError: oops" in problems_of(
        Pipeline("bad", Numbers(3), Raises(), Lists(2))
    )


def test_B16_a_last_batch_of_one_is_warned_of_where_something_trains() -> None:
    class Trains(CountStep):
        trains: ClassVar[bool] = True

    assert "1 sample" in make_plan(Pipeline("bn", Numbers(5), Lists(2), Trains())).cautions[0]
    for fine in (Lists(2, drop_last=True), Lists(5), Lists(3)):
        assert make_plan(Pipeline("bn", Numbers(5), fine, Trains())).cautions == ()
    assert make_plan(Pipeline("bn", Numbers(5), Lists(2), CountStep())).cautions == ()


def test_pin_and_copy_are_put_in_before_the_first_device_map() -> None:
    plan = make_plan(Pipeline("in", Numbers(4), Lists(2), OnHost(), OnDevice(), CountStep()))
    assert [stage.kind for stage in plan.stages] == [
        "read", "collate", "augment", "pin", "copy", "augment", "step",
    ]  # fmt: skip
    assert {plan.stages[i].kind for i in plan.inserted} == {"pin", "copy"}
    copy: Any = plan.stages[4]
    assert copy.device == "cpu"


def test_written_pin_and_copy_keep_their_place_and_parameters() -> None:
    from stoker_plugins import transfer

    stages = (Numbers(4), Lists(2), transfer.ToDevice(), OnHost())
    plan = make_plan(Pipeline("in", *stages))
    assert [stage.kind for stage in plan.stages] == ["read", "collate", "pin", "copy", "augment"]
    assert {plan.stages[i].kind for i in plan.inserted} == {"pin"}


def segments(*stages: Any, cores: float = 2, on_cpu: bool = True) -> list[tuple[Any, ...]]:
    layout = cut(stages, unique_names(stages), cores, on_cpu=on_cpu)
    assert layout.problems == []
    return [(s.part, s.executor, s.num_workers, s.stages) for s in layout.segments]


def test_segments_stand_where_the_way_of_running_changes() -> None:
    assert segments(Numbers(9), Add(), Draw(), Lists(2), OnHost(), OnDevice(), CountStep()) == [
        ("samples", "thread", 2, (0,)),
        ("samples", "thread", 2, (1, 2)),
        ("batches", "thread", 1, (3, 4, 5)),
        ("step", "inline", 1, (6,)),
    ]
    # an accelerator's maps run in the consumer's thread, in its stream
    assert segments(Numbers(9), Lists(2), OnHost(), OnDevice(), on_cpu=False)[1:] == [
        ("batches", "thread", 1, (1, 2)),
        ("batches", "inline", 1, (3,)),
    ]
    # a worker count of its own cuts; "auto" joins its neighbours
    assert segments(Numbers(9), Add(num_workers=4), Draw(), KeepEven(num_workers=3), cores=8) == [
        ("samples", "thread", 4, (0,)),
        ("samples", "thread", 4, (1, 2)),
        ("samples", "thread", 3, (3,)),
    ]
    # everything follows an inline start
    inline = (replace(stage, executor="inline") for stage in (Numbers(9), Add()))
    assert segments(*inline, Draw(), Lists(2)) == [
        ("samples", "inline", 1, (0, 1, 2)),
        ("batches", "inline", 1, (3,)),
    ]


def test_workers_follow_the_cores() -> None:
    assert [s[2] for s in segments(Numbers(9), Add(), Lists(2), cores=16)] == [4, 16, 1]
    assert [s[2] for s in segments(Numbers(9), Add(), Lists(2), cores=0.5)] == [1, 1, 1]
    assert segments(Stream(), cores=16)[0][2] == 1


def test_the_plan_prints_segments_workers_buffers_and_what_was_put_in() -> None:
    text = str(make_plan(Pipeline("shown", Numbers(4), Add(7), Lists(2), CountStep(), epochs=3)))
    for part in (
        "3 epochs of 4",
        "segment 0 (io, ",
        "toy.add(amount=7)",
        "transfer.pin",
        "put in by the plan",
        "buffers: at most 4 batches",
        "in the consumer's thread",
    ):
        assert part in text


def test_the_plan_as_a_dict_is_json() -> None:
    import json

    plan = make_plan(Pipeline("json", Numbers(4), Lists(2), CountStep()))
    again = json.loads(json.dumps(plan.to_dict()))
    assert [s["index"] for s in again["segments"]] == [0, 1, 2]
    assert again["samples"] == 4


def test_ranks_of_one_machine_share_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.measure.host.available_memory", lambda: 8_000_000_000)
    pipeline = Pipeline("p", Numbers(40), Lists(4))
    alone = make_plan(pipeline).prefetch_bytes
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert make_plan(pipeline).prefetch_bytes == alone // 4
