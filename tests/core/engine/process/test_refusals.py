"""What cannot go into a process is refused before one starts, by stage and attribute."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from processes import python
from stoker import Pipeline
from stoker.engine.plan import make_plan
from stoker.errors import PlanError
from stoker.rng import Rng
from stoker.sample import Sample
from stoker.stages import Map
from toys import Numbers, Stream, WithOther

from .stages import Calls, untouched


def closure() -> Callable[[Sample], Sample]:
    amount = 2

    def multiplied(sample: Sample) -> Sample:
        return {**sample, "x": sample["x"] * amount}

    return multiplied


def local_stage(**how: Any) -> Map:
    @dataclass(frozen=True)
    class Local(Map):
        def apply(self, sample: Sample, rng: Rng) -> Sample:
            return sample

    return Local(**how)


LAMBDA: Callable[[Sample], Sample] = lambda sample: {**sample, "x": sample["x"] * 2}  # noqa: E731


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"function": LAMBDA}, "toy.calls: function is a lambda, which another process cannot be"),
        ({"function": closure()}, "toy.calls: function is a closure (closure.<locals>.multiplied)"),
        (
            {"function": untouched, "extra": threading.Lock()},
            "toy.calls: extra is a lock, which another process cannot be given",
        ),
        (
            {"function": untouched, "extra": {"deep": [1, threading.Lock()]}},
            "toy.calls: extra['deep'][1] is a lock",
        ),
        ({"function": functools.partial(LAMBDA)}, "toy.calls: function.func is a lambda"),
    ],
)
def test_B20_lambda_closure_and_lock_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError) as caught:
        make_plan(Pipeline("b20", Numbers(3), Calls(executor="process", **given)))
    assert said in str(caught.value)
    assert "use executor='thread'" in str(caught.value)


def test_B20_threads_still_take_them() -> None:
    with Pipeline(
        "b20",
        Numbers(3),
        Calls(LAMBDA, executor="thread"),
        Calls(closure(), extra=threading.Lock(), executor="thread"),
    ) as loader:
        assert [sample["x"] for sample in loader] == [0, 4, 8]


def test_B20_an_open_file_and_a_local_class_are_refused() -> None:
    with open(__file__) as file:
        problems = problems_of(Calls(untouched, extra=file, executor="process"))
    assert "toy.calls: extra is an open file" in problems
    assert "its class is local_stage.<locals>.Local, defined inside a function" in problems_of(
        local_stage(executor="process")
    )


def test_a_mix_needs_what_comes_before_it() -> None:
    problems = problems_of(Calls(LAMBDA), WithOther(executor="process"))
    assert "toy.calls: function is a lambda" in problems


def test_a_stream_is_refused() -> None:
    with pytest.raises(PlanError, match="read in order by one reader"):
        make_plan(Pipeline("stream", Stream(executor="process")))


def problems_of(*stages: Map | WithOther) -> str:
    with pytest.raises(PlanError) as caught:
        make_plan(Pipeline("bad", Numbers(3), *stages))
    return str(caught.value)


SCRIPT = """
from dataclasses import dataclass
from stoker import Pipeline
from stoker.stages import Map
from toys import Numbers

@dataclass(frozen=True)
class Mine(Map):
    def apply(self, sample, rng):
        return {**sample, "x": sample["x"] + 1}

def main():
    with Pipeline("script", Numbers(3), Mine(executor="process", num_workers=1)) as loader:
        print([sample["x"] for sample in loader])

"""


def test_stages_of_the_users_script_work(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT + "if __name__ == '__main__':\n    main()\n")
    ended = python("-W", "error", str(script))
    assert (ended.stdout, ended.stderr) == ("[1, 2, 3]\n", "")


def test_a_script_without_guard_is_told_so(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT + "main()\n")
    ended = python(str(script))
    assert ended.returncode == 1
    assert "could not start: a worker's process runs your script again" in ended.stderr
    assert "if __name__ == '__main__':" in ended.stderr


def test_B20_stages_typed_in_by_hand_are_refused() -> None:
    ended = python("-c", SCRIPT + "main()\n")
    assert ended.returncode == 1
    assert "is defined in an interactive session" in ended.stderr


def test_children_do_not_import_torch_for_stages_that_do_not(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    body = SCRIPT.replace('sample["x"] + 1', '"torch" in __import__("sys").modules')
    script.write_text(body + "if __name__ == '__main__':\n    main()\n")
    assert python(str(script)).stdout == "[False, False, False]\n", sys.version
