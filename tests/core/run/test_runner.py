"""A whole run: steps, evaluations, windows, files, and what is left of a run that fails."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stoker import Pipeline, Quarantine
from stoker.errors import PlanError, SampleError
from stoker.observer import Observer
from stoker.plugins import Host, hookimpl
from stoker.run import runner as runner_module
from stoker.run.result import total_steps
from stoker.run.runner import Run
from toys import Add, CountStep, Lists, Numbers


class Watcher(Observer):
    name = "watcher"

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.windows: list[Mapping[str, Any]] = []

    def on_start(self, plan: Mapping[str, Any], folder: str) -> None:
        self.heard.append(f"start {plan['pipeline']}")

    def on_window(self, window: Mapping[str, Any]) -> None:
        self.windows.append(window)

    def on_evaluation(self, epoch: int, metrics: Mapping[str, float]) -> None:
        self.heard.append(f"evaluation {epoch} {dict(metrics)}")

    def on_end(self, result: Mapping[str, Any]) -> None:
        self.heard.append(f"end {result['status']}")


def evaluation() -> Pipeline:
    return Pipeline("toy_eval", Numbers(7), Lists(3), CountStep())


def toy(**options: Any) -> Pipeline:
    return Pipeline("toy", Numbers(20), Add(1), Lists(6), CountStep(), epochs=2, **options)


def test_a_run_tells_what_it_did_in_all_its_files(tmp_path: Path) -> None:
    watcher = Watcher()
    result = Run(
        toy(evaluate=evaluation), runs=tmp_path, observers=[watcher], command="stoker run toy"
    ).execute()
    assert result["status"] == "finished"
    assert (result["steps"], result["updates"], result["samples"]) == (8, 8, 40)
    assert result["losses"] == [21.0, 57.0, 93.0, 39.0] * 2
    assert result["evaluation"] == {"total": 21.0}
    assert [record["epoch"] for record in result["evaluations"]] == [0, 1]
    assert result["ledger"] | {"balanced": 0} == {
        **dict.fromkeys(result["ledger"], 0),
        "read": 40,
        "delivered": 40,
    }
    kinds = [stage["kind"] for stage in result["stages"]]
    assert kinds == ["read", "augment", "collate", "pin", "copy", "step"]
    assert all(stage["items"] == 40 for stage in result["stages"])
    assert {"name", "kind", "num_workers", "items_per_s", "service_ms", "cpu_ms"} <= set(
        result["stages"][0]
    )
    assert watcher.heard == [
        "start toy",
        "evaluation 0 {'total': 21.0}",
        "evaluation 1 {'total': 21.0}",
        "end finished",
    ]
    folder = Path(result["run"])
    assert folder.parent == tmp_path
    assert json.loads((folder / "result.json").read_text())["losses"] == result["losses"]
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    windows = [record for record in records if record["event"] == "window"]
    read = sum(window["stages"][0]["items"] for window in windows)
    assert read == 40  # windows add up to the run
    assert len(windows) == len(watcher.windows)
    page = (folder / "report.md").read_text()
    assert "stoker run toy" in page
    assert "| toy.add | augment |" in page
    assert "read 40 = delivered 40" in page


def test_max_steps_stops_between_batches_and_balances(tmp_path: Path) -> None:
    result = Run(toy(max_steps=5), runs=tmp_path).execute()
    assert (result["status"], result["steps"]) == ("stopped at max_steps", 5)
    assert result["ledger"]["balanced"]
    assert result["ledger"]["delivered"] == 26


def test_max_time_stops(tmp_path: Path) -> None:
    slow = Pipeline("slow", Numbers(1000), Lists(1), CountStep(sleep_s=0.01), max_time=0.05)
    result = Run(slow, runs=tmp_path).execute()
    assert result["status"] == "stopped at max_time"
    assert 0 < result["steps"] < 1000
    assert result["ledger"]["balanced"]


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        (
            Pipeline("bad", Numbers(20, fail_at=(13,)), Lists(5), CountStep()),
            "toy.numbers failed on sample '13'",
        ),
        (
            Pipeline("bad", Numbers(20), Lists(5), CountStep(fail_at_step=2)),
            "RuntimeError: the step broke",
        ),
    ],
)
def test_a_run_that_fails_leaves_its_result(
    pipeline: Pipeline, message: str, tmp_path: Path
) -> None:
    with pytest.raises((SampleError, RuntimeError)):
        Run(pipeline, runs=tmp_path).execute()
    (folder,) = tmp_path.iterdir()
    result = json.loads((folder / "result.json").read_text())
    assert result["status"] == "failed"
    assert message in result["error"]
    assert result["steps"] >= 1
    assert result["ledger"]["balanced"]
    assert message in (folder / "report.md").read_text()


def test_quarantined_samples_are_in_the_run_folder(tmp_path: Path) -> None:
    pipeline = Pipeline(
        "q", Numbers(20, fail_at=(3, 4)), Lists(5), CountStep(), on_error=Quarantine(5)
    )
    result = Run(pipeline, runs=tmp_path).execute()
    assert result["ledger"]["quarantined"] == 2
    lines = (Path(result["run"]) / "quarantine.jsonl").read_text().splitlines()
    assert [json.loads(line)["key"] for line in lines] == ["3", "4"]


def test_an_observer_that_breaks_is_noted_and_ends_nothing(tmp_path: Path) -> None:
    class Broken(Observer):
        name = "broken"

        def on_start(self, plan: Mapping[str, Any], folder: str) -> None:
            raise ValueError("no network")

    result = Run(toy(), runs=tmp_path, observers=[Broken()]).execute()
    assert result["status"] == "finished"
    assert result["observer_faults"] == ["observer broken: on_start: ValueError: no network"]


def test_the_layers_of_a_plugin_are_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    class Plugin:
        @hookimpl
        def stoker_run(self, plan: Any) -> Any:
            @contextmanager
            def around() -> Iterator[None]:
                calls.append("enter")
                yield
                calls.append("leave")

            return around()

        @hookimpl
        def stoker_check(self, plan: Any) -> Iterator[str]:
            if plan.pipeline.options.seed == 13:
                yield "seed 13 is unlucky"

        @hookimpl
        def stoker_observers(self) -> Iterator[Observer]:
            watcher = Watcher()
            watcher.heard = calls
            yield watcher

    import sys
    import types

    from stoker.plugins import Found
    from stoker.plugins import host as real_host

    module: Any = types.ModuleType("toy_plugin_module")
    module.plugin = Plugin()
    monkeypatch.setitem(sys.modules, "toy_plugin_module", module)
    builtin = [Found(p.name, p.target, p.distribution, p.version) for p in real_host().plugins]
    host = Host([*builtin, Found("toy", "toy_plugin_module:plugin", "toy-dist", "1")])
    monkeypatch.setattr("stoker.engine.plan.host", lambda: host)
    monkeypatch.setattr(runner_module, "host", lambda: host)
    Run(toy(), runs=tmp_path).execute()
    assert calls == ["start toy", "enter", "leave", "end finished"]
    with pytest.raises(PlanError, match="seed 13 is unlucky"):
        Run(toy(seed=13), runs=tmp_path)


def test_nothing_is_made_for_a_pipeline_that_cannot_run(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="no step"):
        Run(Pipeline("x", Numbers(3), Lists(2)), runs=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_total_steps_is_known_before() -> None:
    from stoker.engine.plan import make_plan

    assert total_steps(make_plan(toy())) == 8
    assert total_steps(make_plan(toy(max_steps=3))) == 3
    assert total_steps(make_plan(toy(rank=1, world_size=2))) == 4


def test_a_metric_that_is_no_number_is_null_in_the_files(tmp_path: Path) -> None:
    class Odd(CountStep):
        @contextmanager
        def open(self, context: Any) -> Iterator[Any]:
            with super().open(context) as session:
                session.results = lambda: {"ratio": float("nan")}  # type: ignore[method-assign]
                yield session

    evaluated = Pipeline("odd_eval", Numbers(4), Lists(2), Odd())
    result = Run(toy(evaluate=evaluated), runs=tmp_path).execute()
    assert result["evaluation"] == {"ratio": None}
    found = json.loads((Path(result["run"]) / "result.json").read_text())
    assert found["evaluations"][0]["metrics"] == {"ratio": None}
    assert (Path(result["run"]) / "report.md").exists()


def test_an_evaluation_that_cannot_be_made_is_wrong_use(tmp_path: Path) -> None:
    def broken() -> Pipeline:
        raise KeyError("no such split")

    with pytest.raises(PlanError, match="evaluate: .*broken.* failed: KeyError"):
        Run(toy(evaluate=broken), runs=tmp_path)


@pytest.mark.parametrize("hook", ["stoker_check", "stoker_run"])
def test_a_hook_that_raises_breaks_its_plugin_alone(
    hook: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys
    import types

    from stoker.plugins import Found
    from stoker.plugins import host as real_host

    def fails(plan: Any) -> Any:
        raise RuntimeError("not today")

    module: Any = types.ModuleType("toy_broken_module")
    setattr(module, hook, hookimpl(fails, specname=hook))
    monkeypatch.setitem(sys.modules, "toy_broken_module", module)
    builtin = [Found(p.name, p.target, p.distribution, p.version) for p in real_host().plugins]
    host = Host([*builtin, Found("toy", "toy_broken_module", "toy-dist", "1")])
    monkeypatch.setattr("stoker.engine.plan.host", lambda: host)
    monkeypatch.setattr(runner_module, "host", lambda: host)
    result = Run(toy(), runs=tmp_path).execute()
    assert result["status"] == "finished"
    assert any("not today" in line for line in result["broken_plugins"])
