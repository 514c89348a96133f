"""Runs that are stopped, killed and resumed come to what an unbroken one does, bit for bit."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from stoker.errors import CheckpointError, PlanError, UsageError
from stoker.pipeline import Pipeline, Quarantine
from stoker.run.checkpoints import listed
from stoker.run.interrupts import Interrupted
from stoker.run.resume import with_resume
from stoker.run.runner import Run
from tests.core.run.training import (
    ALL_STEPS,
    BATCHES,
    TERM,
    Signals,
    assert_same_run,
    events,
    job,
    loss,
    saved,
)
from toys import CountStep, Lists, Numbers


def run(pipeline: Pipeline, runs: Path, resume: Any = None) -> Any:
    return Run(pipeline, runs=runs, resume=resume).execute()


def interrupted(pipeline: Pipeline, runs: Path, resume: Any = None) -> Any:
    """Run a pipeline that a signal ends, and return its result."""
    started = Run(pipeline, runs=runs, resume=resume)
    with pytest.raises(Interrupted):
        started.execute()
    return json.loads((started.folder.path / "result.json").read_text())


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Results of whole runs by the batches of an update."""
    runs = tmp_path_factory.mktemp("unbroken")
    return {window: run(job(window), runs) for window in (1, 3)}


def steps(result: Any) -> list[int]:
    return [step for step, _ in listed(Path(result["run"]))]


# -- stopped and resumed ---------------------------------------------------------------


@pytest.mark.parametrize("stop", [1, 6, 7, 8, 13, 14, 20, 21])
def test_B26_a_run_in_pieces_comes_to_what_an_unbroken_one_does(
    stop: int, unbroken: Any, tmp_path: Path
) -> None:
    first = run(job(max_steps=stop, num_workers=1), tmp_path)
    assert (first["status"], first["steps"]) == ("stopped at max_steps", stop)
    second = run(job(num_workers=3), tmp_path, "auto")
    assert second["run"] == first["run"]
    assert second["status"] == "finished"
    assert second["resumed_at"] == [stop]
    assert second["ledger"]["delivered"] == second["samples"]
    assert_same_run(second, unbroken[1])
    assert [record["steps"] for record in events(second, "resumed")] == [stop]


@pytest.mark.parametrize("stop", [1, 2, 3, 6, 7, 8, 9, 20])
def test_B60_stopped_in_the_middle_of_a_window(stop: int, unbroken: Any, tmp_path: Path) -> None:
    first = run(job(3, max_steps=stop), tmp_path)
    second = run(job(3), tmp_path, first["run"])
    assert_same_run(second, unbroken[3])


def test_B60_periodic_ones_wait_for_the_end_of_a_window(tmp_path: Path) -> None:
    result = run(job(3, save_every_steps=2, keep_checkpoints=99, epochs=2), tmp_path)
    # Of windows that end at 3, 6, 7 (cut short by the epoch) and 10, 13, 14.
    assert steps(result) == [14, 13, 10, 6, 3]
    assert steps(run(job(3, save_every_steps=7, keep_checkpoints=99), tmp_path)) == [21, 14, 7]


def test_B27_stopped_at_every_step_in_turn(unbroken: Any, tmp_path: Path) -> None:
    result = run(job(3, max_steps=1), tmp_path)
    for stop in (*range(2, ALL_STEPS, 3), None):
        result = run(job(3, max_steps=stop), tmp_path, "auto")
    assert result["resumed_at"] == [1, *range(2, ALL_STEPS, 3)]
    assert_same_run(result, unbroken[3])


def test_a_run_that_was_stopped_where_it_is_to_stop_again_takes_no_step(tmp_path: Path) -> None:
    first = run(job(max_steps=9), tmp_path)
    before = (Path(first["checkpoint"]) / "manifest.json").read_text()
    again = run(job(max_steps=9), tmp_path, "auto")
    assert again["status"] == "stopped at max_steps"
    assert (Path(again["checkpoint"]) / "manifest.json").read_text() == before
    assert_same_run(again, first)


def test_more_epochs_go_on_with_a_finished_run(unbroken: Any, tmp_path: Path) -> None:
    first = run(job(epochs=1), tmp_path)
    assert (first["status"], first["steps"]) == ("finished", BATCHES)
    second = run(job(), tmp_path, first["run"])
    assert_same_run(second, unbroken[1])
    earlier = json.loads((Path(second["run"]) / "earlier-result.json").read_text())
    assert earlier["steps"] == BATCHES
    with pytest.raises(UsageError, match="finished, with 3 epochs; to go on, give --epochs above"):
        run(job(), tmp_path, first["run"])
    with pytest.raises(UsageError, match="epochs was 3 and is 2: it may only grow"):
        run(job(epochs=2), tmp_path, first["run"])


def test_what_does_not_decide_the_weights_may_change(unbroken: Any, tmp_path: Path) -> None:
    first = run(job(max_steps=5, num_workers=1), tmp_path)
    changed = job(
        num_workers=2, prefetch_batches=1, prefetch_bytes=1 << 20, max_time=1e6,
        on_error=Quarantine(3), keep_checkpoints=1, save_every_steps=4,
    )  # fmt: skip
    assert_same_run(run(changed, tmp_path, first["run"]), unbroken[1])


# -- signals ---------------------------------------------------------------------------


@pytest.mark.parametrize("window", [1, 3])
def test_B58_a_signal_lets_the_step_end_and_saves_once(
    window: int, unbroken: Any, tmp_path: Path
) -> None:
    first = interrupted(job(window, a_loss=Signals({5: [TERM]})), tmp_path)
    assert (first["status"], first["error"], first["steps"]) == ("interrupted", None, 5)
    assert first["evaluations"] == []
    assert steps(first) == [5]
    second = run(job(window), tmp_path, "auto")
    assert_same_run(second, unbroken[window])


def test_B58_a_signal_while_data_is_waited_for_ends_the_wait(unbroken: Any, tmp_path: Path) -> None:
    class Late(Signals):
        def __call__(self, model: Any, batch: Any) -> Any:
            if model.training and self.calls == 1:  # in the second step, for the third wait
                import threading

                threading.Timer(0.05, os.kill, (os.getpid(), TERM)).start()
            return super().__call__(model, batch)

    first = interrupted(job(a_loss=Late(), read_s=0.025), tmp_path)
    assert first["status"] == "interrupted"
    # Read at another pace, the same data.
    stages = job()
    second = run(stages.with_stage(0, Numbers(26, shuffle=True, sleep_s=0.025)), tmp_path, "auto")
    assert second["resumed_at"] == [first["steps"]]
    assert_same_run(second, unbroken[1])


def test_a_second_signal_ends_the_step_and_saves_nothing(tmp_path: Path) -> None:
    pipeline = job(a_loss=Signals({5: [TERM, TERM]}), save_every_steps=2)
    started = Run(pipeline, runs=tmp_path)
    with pytest.raises(Interrupted, match="at once") as caught:
        started.execute()
    assert caught.value.exit_code == 143
    assert [step for step, _ in listed(started.folder.path)] == [4, 2]
    result = json.loads((started.folder.path / "result.json").read_text())
    assert (result["status"], result["steps"]) == ("interrupted", 4)


def test_a_signal_before_the_first_step_saves_nothing(tmp_path: Path) -> None:
    def model() -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return torch.nn.Linear(3, 1)

    from stoker import Task
    from stoker_plugins import step
    from tests.core.run.training import adam

    task = Task(model=model, loss=loss, optimizer=adam)
    pipeline = job().with_stage("step", step.Train(task)).with_options(evaluate=None)
    with pytest.raises(Interrupted, match="nothing was saved, since no step ended") as caught:
        run(pipeline, tmp_path)
    assert caught.value.exit_code == 130


@pytest.mark.parametrize("epoch", [0, 1, 2])
def test_a_run_that_ends_in_its_evaluation_evaluates_later_and_once(
    epoch: int, unbroken: Any, tmp_path: Path
) -> None:
    seen: list[int] = []

    def ends(model: Any, batch: Any) -> Any:
        seen.append(len(batch["x"]))
        if seen == [4, 4, 2] * epoch + [4]:
            os.kill(os.getpid(), TERM)
        return loss(model, batch)

    first = interrupted(job(evaluate_loss=ends), tmp_path)
    assert first["steps"] == BATCHES * (epoch + 1)
    assert len(first["evaluations"]) == epoch
    counters = saved(first)["counters"]
    assert (counters["epoch"], counters["closed"], counters["evaluated"]) == (epoch, True, False)
    second = run(job(), tmp_path, "auto")
    assert_same_run(second, unbroken[1])
    assert [record["epoch"] for record in events(second, "evaluation")] == [0, 1, 2]


def test_handlers_are_those_of_before_after_a_run(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(TERM)
    run(job(epochs=1), tmp_path)
    interrupted(job(a_loss=Signals({2: [TERM]})), tmp_path)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(TERM)) == before


# -- killed ----------------------------------------------------------------------------


def test_B26_killed_and_resumed_in_a_new_process(tmp_path: Path) -> None:
    code = (
        "import sys, torch; from pathlib import Path; torch.set_num_threads(1)\n"
        "from stoker.run.runner import Run; from tests.core.run.training import slow_job\n"
        "run = Run(slow_job(), runs=Path(sys.argv[1]), resume='auto'); print(run.notes)\n"
        "run.execute()"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])}

    def start(runs: Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", code, str(runs)],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    killed = start(tmp_path / "a")
    deadline = time.monotonic() + 60
    while not list((tmp_path / "a").glob("*/checkpoints/step-*")):
        assert killed.poll() is None, killed.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.005)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    (folder,) = (tmp_path / "a").iterdir()
    assert not (folder / "result.json").exists()
    (folder / "checkpoints" / ".writing-step-99").mkdir(exist_ok=True)  # as if in a save

    whole, resumed = start(tmp_path / "b"), start(tmp_path / "a")
    for process in (resumed, whole):
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 0, said
    assert list((tmp_path / "a").iterdir()) == [folder]
    assert not list((folder / "checkpoints").glob(".writing*"))
    results = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("*/*/result.json"))]
    assert len(results[0]["resumed_at"]) == 1
    assert_same_run(*results)


# -- what is gone on from --------------------------------------------------------------


def test_nothing_to_resume_starts_afresh_and_says_so(tmp_path: Path) -> None:
    run(CountRun, tmp_path)
    started = Run(job(epochs=1), runs=tmp_path, resume="auto")
    assert started.notes == [
        f"no unfinished run of job with a checkpoint in {tmp_path}: starting afresh"
    ]
    assert started.execute()["status"] == "finished"
    again = Run(job(epochs=1), runs=tmp_path, resume="auto")
    assert "starting afresh" in again.notes[0], "a finished run is not gone on with"
    assert again.folder.path != started.folder.path


CountRun = Pipeline("count", Numbers(4), Lists(2), CountStep())


def test_a_step_without_a_state_writes_no_checkpoints(tmp_path: Path) -> None:
    result = run(CountRun.with_options(save_every_steps=1), tmp_path)
    assert result["checkpoint"] is None
    assert not (Path(result["run"]) / "checkpoints").exists()


def test_the_newest_run_is_taken_and_a_live_one_left_alone(tmp_path: Path) -> None:
    older = run(job(max_steps=2), tmp_path)
    newer = run(job(max_steps=3), tmp_path)
    live = Run(job(), runs=tmp_path, resume="auto")
    assert str(live.folder.path) == newer["run"]
    assert live.notes == [f"going on with {newer['run']} from step 3"]
    second = Run(job(max_steps=2), runs=tmp_path, resume="auto")
    assert str(second.folder.path) == older["run"]
    assert f"{newer['run']} was skipped: {newer['run']}: a live run writes there" in second.notes[0]
    with pytest.raises(UsageError, match="a live run writes there; wait for its end, or stop it"):
        Run(job(), runs=tmp_path, resume=newer["run"])
    second.execute()
    live.execute()
    assert Run(job(), runs=tmp_path, resume="auto").notes[0].startswith("going on with")


def test_S9_two_runs_at_once_have_folders_of_their_own(tmp_path: Path) -> None:
    one, other = Run(job(), runs=tmp_path), Run(job(), runs=tmp_path)
    assert one.folder.path != other.folder.path


def test_B58_a_damaged_one_is_skipped_and_said_so(unbroken: Any, tmp_path: Path) -> None:
    first = run(job(save_every_steps=4, max_steps=10, keep_checkpoints=9), tmp_path)
    assert steps(first) == [10, 8, 4]
    folder = Path(first["run"]) / "checkpoints"
    (folder / "step-10" / "manifest.json").unlink()
    (folder / "step-8" / "state.pt").write_bytes(b"x")
    started = Run(job(keep_checkpoints=1), runs=tmp_path, resume="auto")
    assert [note.replace(str(folder), "") for note in started.notes] == [
        "skipped: /step-10 is incomplete: it has no manifest.json",
        "skipped: /step-8: state.pt has 1 bytes of " + started.notes[1].rpartition(" ")[2],
        "/abandoned-step-10: put aside, since the run goes on from step 4",
        "/abandoned-step-8: put aside, since the run goes on from step 4",
        f"going on with {first['run']} from step 4",
    ]
    result = started.execute()
    assert_same_run(result, unbroken[1])
    assert steps(result) == [21, 4], "B57: what was resumed from stays"


def test_a_run_without_a_whole_one_is_skipped_or_refused(tmp_path: Path) -> None:
    first = run(job(max_steps=4), tmp_path)
    (Path(first["checkpoint"]) / "state.pt").write_bytes(b"x")
    with pytest.raises(CheckpointError, match="has no checkpoint that is whole\n  - .*1 bytes of"):
        Run(job(), runs=tmp_path, resume=first["run"])
    with pytest.raises(CheckpointError, match="state.pt has 1 bytes of"):
        Run(job(), runs=tmp_path, resume=first["checkpoint"])
    notes = Run(job(), runs=tmp_path, resume="auto").notes
    assert "was skipped" in notes[0]
    assert "starting afresh" in notes[1]


def test_an_older_checkpoint_can_be_gone_on_from(unbroken: Any, tmp_path: Path) -> None:
    first = run(job(save_every_steps=4, max_steps=10), tmp_path)
    folder = Path(first["run"]) / "checkpoints"
    result = run(job(), tmp_path, folder / "step-8")
    assert_same_run(result, unbroken[1])
    assert (folder / "abandoned-step-10").is_dir()
    assert result["run"] == first["run"]


def test_a_folder_that_cannot_be_gone_on_from_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    for name, reason in (
        ("nowhere", "no such folder"),
        ("file", "is a file"),
        ("empty", "it holds no checkpoints"),
    ):
        given = tmp_path / name
        with pytest.raises(UsageError) as caught:
            Run(job(), runs=tmp_path / "runs", resume=given)
        assert str(caught.value) == (
            f"--resume {given}: {reason}; give auto, the folder of a run, or that of one of its "
            "checkpoints"
        )
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        (job(seed=5), "seed was 0 and is 5"),
        (job(3), r"memory was none and is memory.accumulate\(gradient_accumulation_steps=3\)"),
        (job(precision="bf16"), "precision was 'precision.fp32"),
        (job().with_stage(0, Numbers(27, shuffle=True)), "n=26, .* is n=27, "),
        (job().with_stage(0, Numbers(27, shuffle=True)), "samples was 26 and is 27"),
        (job().with_stage(1, Lists()), "the stage training.noisy.* is toy.lists"),
        (
            Pipeline("job", *job().stages[:1], *job().stages[2:], epochs=3),
            "the stages were toy.numbers, training.noisy, .* and are toy.numbers, training.points",
        ),
        (Pipeline("other", *job().stages, epochs=3), "pipeline was 'job' and is 'other'"),
    ],
)
def test_another_run_is_refused_with_what_differs(
    changed: Pipeline, difference: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run(job(max_steps=2, epochs=3), tmp_path)
    shutil.copytree(first["run"], tmp_path / "kept")
    monkeypatch.setattr("stoker.engine.checks.order", lambda *_: [])
    with pytest.raises(UsageError, match=difference) as caught:
        run(changed, tmp_path, first["run"])
    assert "is of another run:\n  - " in str(caught.value)
    assert "leave --resume out to start afresh" in str(caught.value)
    left = {path.name for path in Path(first["run"]).iterdir()}
    assert left == {path.name for path in (tmp_path / "kept").iterdir()}, "nothing was touched"


@pytest.mark.parametrize("part", ["step", "counters", "loader", "generators"])
def test_S11_a_missing_part_is_an_error(part: str, tmp_path: Path) -> None:
    from stoker.run import checkpoints

    first = run(job(max_steps=2), tmp_path)
    state, manifest = saved(first), checkpoints.read_manifest(Path(first["checkpoint"]))
    del state[part]
    facts = {name: manifest[name] for name in ("identity", "epoch", "epochs")}
    checkpoints.write(Path(first["run"]), 2, state, facts)
    with pytest.raises(CheckpointError, match=f"lacks {part}"):
        run(job(), tmp_path, "auto")


# -- saving ----------------------------------------------------------------------------


def test_checkpoints_by_steps_and_by_minutes(tmp_path: Path) -> None:
    assert steps(run(job(save_every_steps=5), tmp_path)) == [21, 20]
    assert steps(run(job(save_every_steps=5, keep_checkpoints=1), tmp_path)) == [21]
    assert steps(run(job(save_every_minutes=0.0, keep_checkpoints=99), tmp_path)) == [
        *range(21, 0, -1)
    ]
    assert steps(run(job(keep_checkpoints=99), tmp_path)) == [21], "at the end, in any case"


@pytest.mark.parametrize(
    ("option", "value"),
    [("keep_checkpoints", 0), ("keep_checkpoints", -1), ("save_every_steps", 0)],
)
def test_B57_numbers_below_one_are_refused(option: str, value: int, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=f"{option}={value}: allowed is"):
        Run(job(**{option: value}), runs=tmp_path)


def test_a_save_that_fails_ends_nothing_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, calls = torch.save, []

    def full(state: Any, file: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        save(state, file)

    monkeypatch.setattr(torch, "save", full)
    with pytest.warns(RuntimeWarning, match="could not be written, at step 10: .*step-5 stays"):
        result = run(job(save_every_steps=5, keep_checkpoints=9), tmp_path)
    assert result["status"] == "finished"
    assert steps(result) == [21, 20, 15, 5]
    (failure,) = result["checkpoint_failures"]
    assert failure.startswith("step 10: OSError")


def test_a_line_that_a_kill_cut_off_does_not_spoil_the_next_one(tmp_path: Path) -> None:
    first = run(job(max_steps=4), tmp_path)
    with (Path(first["run"]) / "metrics.jsonl").open("a") as file:
        file.write('{"event": "win')
    second = run(job(), tmp_path, "auto")
    lines = (Path(second["run"]) / "metrics.jsonl").read_text().splitlines()
    assert sum(line.startswith('{"event": "resumed"') for line in lines) == 1
    assert (
        "Resumed at step 4: the table of stages is of the time since"
        in (Path(second["run"]) / "report.md").read_text()
    )


@pytest.mark.parametrize(
    ("command", "to_go_on"),
    [
        ("stoker run digits", "stoker run digits --resume auto"),
        ("stoker run a --resume old/x --seed 1", "stoker run a --seed 1 --resume old/x"),
        ("stoker run a --resume=old/x/checkpoints/step-4", "stoker run a --resume old/x"),
        ("stoker run a --resume=auto", "stoker run a --resume auto"),
        ("stoker run 'a b.py:x'", "stoker run 'a b.py:x' --resume auto"),
    ],
)
def test_the_line_that_goes_on(command: str, to_go_on: str) -> None:
    assert with_resume(command, Path("old/x")) == to_go_on


def test_steps_without_a_model_go_on_too(tmp_path: Path) -> None:
    from stoker_plugins import collate, read, step

    stages = read.Synthetic(40, shape=(2,)), collate.Stack(4), step.Timed(0.0)
    whole = Run(Pipeline("timed", *stages), runs=tmp_path / "whole").execute()
    Run(Pipeline("timed", *stages, max_steps=3), runs=tmp_path / "cut").execute()
    rest = Run(Pipeline("timed", *stages), runs=tmp_path / "cut", resume="auto").execute()
    assert rest["order"] == whole["order"]
    assert (rest["steps"], rest["ledger"]["delivered"]) == (10, 40)
