"""Declaring pipelines: addresses, changed copies, equality, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from stoker import Pipeline, stage
from stoker.errors import UnknownNameError, UsageError
from stoker.pipeline import Options, Quarantine, resolve_policy
from stoker.plugins import Found, Host
from toys import Add, Draw, KeepEven, Lists, Numbers


def toy(**options: Any) -> Pipeline:
    return Pipeline("toy", Numbers(8), Add(1), KeepEven(), Add(2), Lists(batch_size=2), **options)


@pytest.fixture
def policies(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the host know a policy that needs a parameter."""
    (tmp_path / "needy_policies.py").write_text(
        "from dataclasses import dataclass\n"
        "from typing import ClassVar\n"
        "from stoker.parameters import param\n"
        "from stoker.plugins import PolicyEntry, hookimpl\n"
        "from stoker.policy import Precision\n"
        "@dataclass(frozen=True)\n"
        "class Needy(Precision):\n"
        "    name: ClassVar[str] = 'precision.needy'\n"
        "    bits: int = param(minimum=1)\n"
        "@hookimpl\n"
        "def stoker_precisions():\n"
        "    yield PolicyEntry('precision.needy', f'{__name__}:Needy')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    known = Host([Found("needy", "needy_policies", "needy", "1")])
    monkeypatch.setattr("stoker.pipeline.host", lambda: known)


@pytest.mark.parametrize(
    ("stages", "told"),
    [
        (
            (Add,),
            "pipeline 'p': <class 'toys.Add'> is no stage; make it with parentheses: Add(...)",
        ),
        ((len,), "pipeline 'p': <built-in function len> is no stage; wrap a plain function in"),
        (("toy.add",), "pipeline 'p': 'toy.add' is no stage"),
        ((Numbers(2), None), "pipeline 'p': None is no stage"),
    ],
)
def test_what_is_no_stage_is_refused(stages: Any, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        Pipeline("p", *stages)
    assert str(caught.value).startswith(told)


def test_a_forgotten_name_is_told() -> None:
    with pytest.raises(UsageError, match=r"a pipeline's name comes first, .* given was Numbers\("):
        Pipeline(Numbers(2), Lists())


def test_all_unknown_options_are_told() -> None:
    with pytest.raises(UsageError) as caught:
        toy(epoch=1, seeed=2)
    assert str(caught.value) == (
        "pipeline 'toy': no pipeline option 'epoch'; did you mean 'epochs'?; "
        "no pipeline option 'seeed'; did you mean 'seed'?"
    )


def test_memory_policies_may_be_one_several_or_none() -> None:
    from stoker_plugins import memory

    one = memory.MicroBatch(2)
    assert toy(memory=one).options.memory == (one,)
    assert toy(memory=[one, one]).options.memory == (one, one)
    assert toy(memory=None).options.memory == toy(memory=[]).options.memory == ()


@pytest.mark.parametrize(
    ("address", "index"),
    [
        ("toy.numbers", 0),
        ("read", 0),
        ("toy.add#1", 1),
        ("toy.add#2", 3),
        ("augment#1", 1),
        ("augment#2", 2),
        ("augment#3", 3),
        ("toy.keep_even", 2),
        ("toy.keep_even#1", 2),
        ("collate", 4),
        ("collate#1", 4),
    ],
)
def test_an_address_is_a_name_or_a_kind_with_its_occurrence(address: str, index: int) -> None:
    assert toy().find(address) == index


@pytest.mark.parametrize(
    ("address", "told"),
    [
        (
            "augment",
            "'augment' names 3 stages; say which: augment#1 (toy.add), augment#2 (toy.keep_",
        ),
        (
            "toy.add",
            "'toy.add' names 2 stages; say which: toy.add#1 (toy.add), toy.add#2 (toy.add)",
        ),
        ("augment#4", "no stage 'augment#4': 'augment' occurs 3 times"),
        ("augment#0", "no stage 'augment#0': 'augment' occurs 3 times"),
        ("augment#²", "no stage 'augment#²': 'augment' occurs 3 times"),
        ("augment#-1", "no stage 'augment#-1': 'augment' occurs 3 times"),
        ("augmnt", "pipeline 'toy' has no stage 'augmnt'; did you mean 'augment'?"),
        ("augmnt#2", "pipeline 'toy' has no stage 'augmnt#2'; did you mean 'augment'?"),
        ("numbers", "pipeline 'toy' has no stage 'numbers'; did you mean 'toy.numbers'?"),
        ("", "pipeline 'toy' has no stage ''; known: augment, collate, read, toy.add,"),
    ],
)
def test_a_wrong_address_is_told_with_the_right_ones(address: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        toy().find(address)
    assert str(caught.value).startswith(told)


class Companion(Draw):
    """Serves the stage of its kind."""

    companion = True
    name = "toy.companion"


def test_companions_do_not_count_for_a_bare_kind() -> None:
    pipeline = Pipeline("p", Numbers(2), Companion(), Add(), Companion(), Lists())
    assert pipeline.find("augment") == 2
    assert pipeline.find("augment#1") == 1
    assert Pipeline("p", Numbers(2), Companion(), Lists()).find("augment") == 1
    with pytest.raises(UsageError, match=r"augment#1 \(toy.companion\), augment#2 \(toy.companion"):
        Pipeline("p", Numbers(2), Companion(), Companion()).find("augment")
    with pytest.raises(UsageError, match=r"2 stages; say which: augment#2 \(toy.add\), augment#3"):
        Pipeline("p", Numbers(2), Companion(), Add(), Add()).find("augment")


def test_each_stage_has_an_address_of_its_own() -> None:
    assert toy().addresses == ["toy.numbers", "toy.add", "toy.keep_even", "toy.add#2", "toy.lists"]


def test_changed_copies_leave_the_original_alone() -> None:
    pipeline = toy(seed=3)
    other = pipeline.with_options(epochs=2)
    assert (other.options.epochs, other.options.seed) == (2, 3)
    assert pipeline.options.epochs == 1
    swapped = pipeline.with_stage("toy.add#2", Add(9))
    assert swapped.stages[3] == Add(9)
    assert swapped.options == pipeline.options
    assert pipeline.stages[3] == Add(2)
    assert pipeline.with_stage(1, Add(5)).stages[1] == Add(5)
    with pytest.raises(UsageError, match="no pipeline option 'epoch'"):
        pipeline.with_options(epoch=2)


def test_pipelines_are_equal_by_value() -> None:
    assert toy(seed=1) == toy(seed=1)
    assert toy(seed=1) != toy(seed=2)
    assert toy() != toy().with_stage(1, Add(5))
    assert toy() != Pipeline("other", *toy().stages)
    assert toy() != "toy"
    with pytest.raises(TypeError):
        hash(toy())


def test_a_pipeline_shows_itself_as_it_was_declared() -> None:
    shown = repr(toy(seed=3, evaluate=Pipeline("val", Numbers(2)), on_error=Quarantine(5)))
    assert shown == (
        "Pipeline('toy',\n"
        "    toy.numbers(n=8),\n"
        "    toy.add(amount=1),\n"
        "    toy.keep_even(),\n"
        "    toy.add(amount=2),\n"
        "    toy.lists(batch_size=2),\n"
        "    seed=3,\n"
        "    evaluate='val',\n"
        "    on_error=Quarantine(budget=5),\n"
        ")"
    )


def test_a_pipeline_can_be_entered_twice_at_once() -> None:
    pipeline = toy()
    with pipeline as outer:
        with pipeline as inner:
            assert inner is not outer
            assert list(inner) == [[4, 6], [8, 10]]
        assert list(outer) == [[4, 6], [8, 10]]
    with pytest.raises(UsageError, match="closed"):
        next(iter(outer))


def test_options_have_defaults_that_hold() -> None:
    from stoker.parameters import faults

    assert list(faults(Options())) == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"epochs": 0}, "epochs=0: allowed is int of at least 1"),
        ({"epochs": 2.0}, "epochs=2.0: allowed is int of at least 1"),
        (
            {"max_time": float("nan")},
            "max_time=nan: allowed is float | None, numbers of at least 0",
        ),
        ({"on_error": "ignore"}, "on_error='ignore': allowed is 'raise' | Quarantine"),
        ({"on_error": {"budget": 3}}, "on_error={'budget': 3}: allowed is 'raise' | Quarantine"),
        ({"precision": 16}, "precision=16: allowed is str | Precision"),
        ({"memory": ["micro"]}, "memory=('micro',): allowed is tuple[Memory, ...]"),
        ({"in_order": 1}, "in_order=1: allowed is bool"),
    ],
)
def test_wrong_options_are_told_with_what_is_allowed(options: Any, told: str) -> None:
    from stoker.parameters import faults

    (fault,) = faults(toy(**options).options)
    assert fault.startswith(told)


def test_a_stage_is_made_by_name() -> None:
    from stoker_plugins import collate

    assert stage("collate.stack", batch_size=3) == collate.Stack(3)
    with pytest.raises(UnknownNameError, match=r"did you mean 'collate.stack'\?"):
        stage("collate.stak")
    with pytest.raises(
        UsageError, match=r"collate.stack has no parameter 'batch_sise'.*needs batch"
    ):
        stage("collate.stack", batch_sise=3)


def test_a_policy_is_resolved_by_name_or_is_itself() -> None:
    from stoker_plugins import precision

    assert resolve_policy("precision", "bf16") == precision.Bf16()
    assert resolve_policy("precision", "precision.bf16") == precision.Bf16()
    given = precision.Bf16()
    assert resolve_policy("precision", given) is given
    with pytest.raises(UnknownNameError, match=r"did you mean 'precision.bf16'\?"):
        resolve_policy("precision", "BF61")


@pytest.mark.usefixtures("policies")
def test_a_policy_that_needs_parameters_cannot_be_had_by_name() -> None:
    with pytest.raises(UsageError, match=r"precision.needy needs bits \(int of at least 1\)"):
        resolve_policy("precision", "needy")
