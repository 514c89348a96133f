"""`stoker run`: what goes wrong before anything starts, plans, results, and failing runs."""

from __future__ import annotations

import dataclasses
import json
import signal
import tarfile
import threading
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from stoker.cli.live import LiveTable, progress_line, stage_table
from stoker.measure.snapshot import StageRow
from tests.core.cli.conftest import Plug, Stoker, Told, Write

JOBS = """
    import sys

    def made(samples: int = 6, batch_size: int = 2, **options):
        return Pipeline("made", read.Synthetic(samples), collate.List(batch_size),
                        step.Timed(0.0), **options)

    def twice(): return Pipeline("twice", read.Synthetic(4), augment.Flip(), augment.Flip(),
                                 collate.List(2), step.Timed(0.0))
    def files(root: str = "photos"):
        return Pipeline("files", read.Files(root), decode.Image(), collate.Stack(2),
                        step.Timed(0.0))

    def shards(pattern: str = "nowhere-*.tar"):
        return Pipeline("shards", read.WebDataset(pattern), collate.List(2), step.Timed(0.0))

    def data(): return Pipeline("data", read.Dataset([]), collate.List(2), step.Timed(0.0))
    def no_step(): return Pipeline("no_step", read.Synthetic(4), collate.List(2))
    def backwards(): return Pipeline("backwards", collate.List(2), read.Synthetic(4))
    def nothing(): return None
    def raises(): raise ValueError("no luck")
    def exits(): sys.exit(0)

    def wrong():
        return Pipeline("wrong", read.Files("nowhere", extensions=5), augment.Flip(p=2),
                        collate.Stack(0), step.Timed(-1.0), epochs=0, seed="x")

    def fails(sample):
        print("seen")
        raise KeyError("no such field here")
    def failing(): return Pipeline("failing", read.Synthetic(4), augment.Apply(fails),
                                   collate.List(2), step.Timed(0.0))
    number = 17
"""


@pytest.fixture(autouse=True)
def _jobs(write: Write) -> None:
    write(JOBS, "jobs.py")
    write("def x(:", "broken.py")
    write("import sys; sys.exit(3)", "exits.py")
    Path("empty").mkdir()
    Path("flat").mkdir()
    Path("flat/a.jpg").touch()
    Path("classes/cat").mkdir(parents=True)
    Path("classes/cat/notes.txt").touch()
    with tarfile.open("hollow-0.tar", "w"):
        pass
    Path("file").touch()


def nothing_started(told: Told) -> None:
    """Assert that nothing was said or begun but one message."""
    assert told.out == ""
    assert told.err.startswith("stoker: ")
    assert "Traceback" not in told.err
    assert not Path("runs").exists()
    assert [t.name for t in threading.enumerate() if t.name.startswith("stoker-")] == []


BAD = {
    "missing folder": (
        ["jobs.py:files"],
        "read.files: root='photos': no such folder; give the folder that holds the class folders",
    ),
    "empty folder": (["jobs.py:files", "--arg", "root=empty"], "read.files: root='empty' holds"),
    "folder without classes": (
        ["jobs.py:files", "--arg", "root=flat"],
        "root='flat' holds 1 files",
    ),
    "folder without pictures": (
        ["jobs.py:files", "--arg", "root=classes"],
        "root='classes': no file",
    ),
    "folder that is a file": (["jobs.py:files", "--arg", "root=file"], "root='file' is a file"),
    "pattern that matches nothing": (
        ["jobs.py:shards"],
        "read.webdataset: shard pattern 'nowhere-",
    ),
    "shard without samples": (
        ["jobs.py:shards", "--arg", "pattern=hollow-0.tar"],
        "read.webdataset",
    ),
    "empty dataset": (["jobs.py:data"], "read.dataset"),
    "typo in a parameter": (
        ["jobs.py:made", "--set", "collate.batch_sise=3"],
        "collate.list has no parameter 'batch_sise'; did you mean 'batch_size'?",
    ),
    "typo in a stage": (
        ["jobs.py:made", "--set", "colate.batch_size=3"],
        "pipeline 'made' has no stage 'colate'; did you mean 'collate'?",
    ),
    "ambiguous stage": (
        ["jobs.py:twice", "--set", "augment.p=1"],
        "'augment' names 2 stages; say which: augment#1 (augment.flip), augment#2 (augment.flip)",
    ),
    "typo in an option": (
        ["jobs.py:made", "--set", "epoch=3"],
        "no pipeline option 'epoch'; did you mean 'epochs'?",
    ),
    "typo in an argument": (
        ["jobs.py:files", "--arg", "rot=empty"],
        "jobs.py:files has no argument 'rot'; did you mean 'root'?",
    ),
    "wrong type": (
        ["jobs.py:made", "--set", "collate.batch_size=many"],
        "collate.list: batch_size='many': allowed is int of at least 1",
    ),
    "out of bounds": (
        ["jobs.py:made", "--set", "step.step_ms=-1"],
        "step.timed: step_ms=-1: allowed is float of at least 0 (ms)",
    ),
    "wrong type of an argument": (
        ["jobs.py:made", "--arg", "samples=few"],
        "--arg samples='few': allowed is int",
    ),
    "unknown stage": (
        ["jobs.py:made", "--swap", "collate=collate.lists"],
        "no stage 'collate.lists'; did you mean 'collate.list'?",
    ),
    "unknown pipeline": (["digitz"], "no pipeline 'digitz'; did you mean 'digits'?"),
    "no such file": (["job.py:made"], "job.py: no such file (looked in "),
    "folder for a file": (["empty:made"], "empty"),
    "syntax error": (
        ["broken.py:x"],
        "broken.py could not be imported: SyntaxError: invalid syntax (broken.py, line 3)",
    ),
    "file that exits": (["exits.py:x"], "exits.py could not be imported: SystemExit: 3"),
    "no such module": (["nowhere_at_all:x"], "nowhere_at_all could not be imported: ModuleNotF"),
    "no such function": (["jobs.py:mede"], "jobs.py has no function 'mede'; did you mean 'made'?"),
    "no function": (["jobs.py"], "jobs.py: say which function: jobs.py:made, jobs.py:twice, "),
    "function that raises": (["jobs.py:raises"], "jobs.py:raises failed: ValueError: no luck"),
    "function that exits": (["jobs.py:exits"], "jobs.py:exits failed: SystemExit: 0"),
    "no pipeline": (["jobs.py:nothing"], "jobs.py:nothing returned NoneType, not a Pipeline"),
    "a number": (["jobs.py:number"], "jobs.py:number is int, not a pipeline or a function of one"),
    "no step": (["jobs.py:no_step"], "it has no step, so there is nothing to run"),
    "backwards": (
        ["jobs.py:backwards"],
        "the first stage must be a source (read.*), is collate.list",
    ),
    "unknown precision": (
        ["jobs.py:made", "--precision", "bf61"],
        "no precision policy 'precision.bf61'; did you mean 'precision.bf16'?",
    ),
    "unknown device": (["jobs.py:made", "--device", "gpu"], "device='gpu' is no torch device"),
    "absent device": (["jobs.py:made", "--device", "xla"], "device='xla' is not available here"),
    "runs in a file": (
        ["jobs.py:made", "--runs", "file"],
        "--runs file: cannot make a run folder there: Not a directory",
    ),
}


@pytest.mark.parametrize(("words", "expected"), BAD.values(), ids=BAD)
def test_bad_input_is_one_message_and_nothing_is_started(
    stoker: Stoker, words: list[str], expected: str
) -> None:
    told = stoker("run", *words)
    assert told.code == 2
    assert expected in told.err
    nothing_started(told)
    as_json = stoker("run", *words, "--json")
    assert as_json.code == 2
    assert as_json.json.keys() == {"error", "exit_code"}
    assert expected in as_json.json["error"]
    assert as_json.json["exit_code"] == 2
    assert not Path("runs").exists()


def test_all_that_is_wrong_with_a_pipeline_is_one_report(stoker: Stoker) -> None:
    told = stoker("run", "jobs.py:wrong")
    assert told.code == 2
    nothing_started(told)
    assert told.err.splitlines() == [
        "stoker: pipeline 'wrong' has 6 problems:",
        "  - epochs=0: allowed is int of at least 1",
        "  - seed='x': allowed is int of at least 0",
        "  - read.files: extensions=5: allowed is tuple[str, ...]",
        "  - augment.flip: p=2: allowed is float from 0 to 1",
        "  - collate.stack: batch_size=0: allowed is int of at least 1",
        "  - step.timed: step_ms=-1.0: allowed is float of at least 0 (ms)",
    ]


def test_all_that_is_wrong_with_the_words_is_one_report(stoker: Stoker) -> None:
    told = stoker(
        "run", "jobs.py:made", "--set", "colate.batch_size=3", "--set", "read.samples=few",
        "--set", "sead=1", "--swap", "step=step.nothing",
    )  # fmt: skip
    assert told.code == 2
    nothing_started(told)
    assert told.err.splitlines()[0] == "stoker: 4 problems:"
    for piece in ("no stage 'step.nothing'", "'colate'", "samples='few'", "'sead'"):
        assert piece in told.err


def test_a_stage_of_a_broken_plugin_is_told_with_the_plugin(
    stoker: Stoker, plug: Plug, write: Write
) -> None:
    plug("bad", "raise ValueError('no luck')")
    write(
        """
        from stoker import stage
        def uses(): return Pipeline("uses", stage("bad.read"), collate.List(2), step.Timed(0.0))
        """,
        "uses.py",
    )
    told = stoker("run", "uses.py:uses")
    assert told.code == 2
    assert "no stage 'bad.read'" in told.err
    assert "broken plugins: bad, see stoker plugins" in told.err
    nothing_started(told)
    assert stoker("run", "jobs.py:made").code == 0, "and does not keep others from running"


# -- plans -----------------------------------------------------------------------------


def test_a_plan_is_printed_and_nothing_runs(stoker: Stoker) -> None:
    told = stoker("run", "jobs.py:made", "--plan", "--seed", "5", "--epochs", "3")
    assert (told.code, told.err) == (0, "")
    assert "plan of made: device " in told.out
    assert "seed 5, 3 epochs of 6 samples" in told.out
    assert "read.synthetic(samples=6)" in told.out
    assert not Path("runs").exists()


def test_a_plan_as_one_object_holds_what_was_asked_for(stoker: Stoker) -> None:
    words = [
        "run", "jobs.py:made", "--plan", "--json", "--seed", "5", "--epochs", "3",
        "--precision", "bf16", "--device", "cpu", "--set", "collate.batch_size=3",
        "--set", "in_order=false", "--arg", "samples=7",
    ]  # fmt: skip
    plan = stoker(*words).json
    assert (plan["seed"], plan["epochs"], plan["samples"], plan["in_order"]) == (5, 3, 7, False)
    assert (plan["device"], plan["precision"]) == ("cpu", "precision.bf16")
    calls = [stage["call"] for segment in plan["segments"] for stage in segment["stages"]]
    assert "collate.list(batch_size=3)" in calls


# -- runs ------------------------------------------------------------------------------


def test_a_run_is_told_and_written(stoker: Stoker) -> None:
    told = stoker("run", "jobs.py:made", "--max-steps", "2", "--device", "cpu")
    assert (told.code, told.err) == (0, "")
    assert told.out.startswith("running made on cpu, into runs/")
    assert "made: stopped at max_steps, 2 steps, 4 samples in " in told.out
    assert "ledger: read " in told.out
    (folder,) = Path("runs").iterdir()
    assert f"written to {folder}" in told.out
    assert {entry.name for entry in folder.iterdir()} == {
        ".lock",
        "checkpoints",
        "metrics.jsonl",
        "result.json",
        "report.md",
    }
    result = json.loads((folder / "result.json").read_text())
    assert result["command"] == "stoker run jobs.py:made --max-steps 2 --device cpu"


def test_a_run_as_one_object(stoker: Stoker) -> None:
    told = stoker("run", "jobs.py:made", "--json", "--runs", "other [/x]", "--arg", "seed=7")
    assert told.code == 0
    result = told.json
    assert (result["status"], result["steps"], result["samples"]) == ("finished", 3, 6)
    assert result["plan"]["seed"] == 7
    assert result["run"].startswith("other [/x]/")
    assert json.loads(Path(result["run"], "result.json").read_text()) == result
    assert "into other [/x]/" in told.err, "progress goes to standard error"


def test_a_run_that_fails_says_why_and_where_it_was_written(stoker: Stoker) -> None:
    told = stoker("run", "jobs.py:failing")
    assert told.code == 1
    (folder,) = Path("runs").iterdir()
    assert f"measured until then: {folder}" in told.out
    (message,) = told.err.splitlines()
    assert message.startswith("stoker: augment.apply failed on sample '0' in synthetic: KeyError: ")
    assert message.endswith("no such field here")
    result = json.loads((folder / "result.json").read_text())
    assert result["status"] == "failed"
    as_json = stoker("run", "jobs.py:failing", "--json")
    assert as_json.code == as_json.json["exit_code"] == 1
    assert "no such field here" in as_json.json["error"]
    assert "seen" in as_json.err, "what a stage prints does not spoil the object"


def test_an_interrupted_run_says_so(stoker: Stoker, monkeypatch: pytest.MonkeyPatch) -> None:
    from stoker.run import counters

    def interrupt(self: Any, outcome: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(counters.Counters, "note", interrupt)
    told = stoker("run", "jobs.py:made")
    assert (told.code, told.err) == (130, "stoker: interrupted\n")
    (folder,) = Path("runs").iterdir()
    assert json.loads((folder / "result.json").read_text())["status"] == "interrupted"
    as_json = stoker("run", "jobs.py:made", "--json")
    assert (as_json.code, as_json.json) == (130, {"error": "interrupted", "exit_code": 130})


# -- going on --------------------------------------------------------------------------

TRAINING = """
    import os, signal
    import torch
    from stoker import Task

    def model(): return torch.nn.Linear(3, 1)
    def adam(parameters): return torch.optim.Adam(parameters)
    def loss(model, batch):
        calls[0] += 1
        if calls[0] in ends:
            os.kill(os.getpid(), ends[calls[0]])
        return model(batch["image"].float().mean((2, 3))).square().sum(), len(batch["image"])

    def trains(epochs: int = 2):
        return Pipeline("trains", read.Synthetic(6, shape=(4, 4, 3)), collate.Stack(2),
                        augment.Normalize(), step.Train(Task(model, loss, adam)), epochs=epochs)
    calls, ends = [0], {}
"""


@pytest.fixture
def ends(write: Write) -> Any:
    """Return what a training job takes: signals by step."""
    import importlib

    write(TRAINING, "training_job.py")
    module = importlib.import_module("training_job")
    return module.ends


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize(
    ("number", "name", "code"), [(signal.SIGTERM, "SIGTERM", 143), (signal.SIGINT, "Ctrl-C", 130)]
)
def test_a_signal_saves_and_says_how_to_go_on(
    number: int, name: str, code: int, stoker: Stoker, ends: Any
) -> None:
    ends[4] = number
    words = ("run", "training_job.py:trains", "--device", "cpu")
    told = stoker(*words)
    assert told.code == code
    assert told.err == (
        f"stoker: interrupted by {name}: saved at step 4; to go on: stoker "
        f"{' '.join(words)} --resume auto\n"
    )
    (folder,) = Path("runs").iterdir()
    assert json.loads((folder / "result.json").read_text())["status"] == "interrupted"
    told = stoker(*words, "--resume", "auto")
    assert (told.code, told.err) == (0, "")
    assert told.out.startswith(f"going on with {folder} from step 4\n")
    assert "trains: finished, 6 steps, 12 samples" in told.out
    assert list(Path("runs").iterdir()) == [folder]


def test_a_signal_as_one_object(stoker: Stoker, ends: Any) -> None:
    ends[2] = signal.SIGTERM
    told = stoker("run", "training_job.py:trains", "--json")
    assert told.code == told.json["exit_code"] == 143
    assert told.json["error"].endswith(
        "to go on: stoker run training_job.py:trains --json --resume auto"
    )
    resumed = stoker("run", "training_job.py:trains", "--json", "--resume", "auto")
    assert resumed.json["resumed_at"] == [2]
    assert "going on with" in resumed.err


def test_how_often_to_save_is_given_by_flags(stoker: Stoker, ends: Any) -> None:
    result = stoker(
        "run", "training_job.py:trains", "--json", "--save-every-steps", "2",
        "--save-every-minutes", "1e9", "--keep-checkpoints", "3",
    ).json  # fmt: skip
    assert {path.name for path in Path(result["run"], "checkpoints").iterdir()} == {
        "step-2",
        "step-4",
        "step-6",
    }
    for flag in ("--save-every-steps", "--keep-checkpoints"):
        told = stoker("run", "training_job.py:trains", flag, "0", "--json")
        assert told.code == told.json["exit_code"] == 2
        assert told.json["error"].startswith(f"Invalid value for '{flag}': ")


def test_nothing_to_resume_is_said(stoker: Stoker, ends: Any) -> None:
    told = stoker("run", "training_job.py:trains", "--resume", "auto")
    assert told.code == 0
    first = told.out.splitlines()[0]
    assert first == "no unfinished run of trains with a checkpoint in runs: starting afresh"
    told = stoker("run", "training_job.py:trains", "--resume", "nowhere")
    assert told.code == 2
    assert told.err.startswith("stoker: --resume nowhere: no such folder; give auto, ")
    (folder,) = Path("runs").iterdir()
    told = stoker("run", "training_job.py:trains", "--resume", str(folder), "--seed", "3")
    assert told.code == 2
    assert "seed was 0 and is 3" in told.err


# -- what is shown ---------------------------------------------------------------------

ROW = StageRow(
    "augment.random_resized_crop", "augment", 0, "thread", 2, 100, 0, 1234.6, 12.34, 1.5, 20.0,
    0.25, None, None, 0.256, 0.004, 1.0,
)  # fmt: skip
WINDOW = {
    "epoch": 0,
    "epochs": 2,
    "steps": 1_250,
    "total_steps": 5_000,
    "elapsed_s": 600.0,
    "loss": 0.5,
    "stages": [{"items_per_s": 1_000.0}],
}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "epoch 1/2  step 1,250/5,000  1,000 samples/s  30.0 min left  loss 0.5000"),
        ({"total_steps": None}, "epoch 1/2  step 1,250  1,000 samples/s  loss 0.5000"),
        ({"steps": 0}, "epoch 1/2  step 0/5,000  1,000 samples/s  loss 0.5000"),
        ({"steps": 5_000}, "epoch 1/2  step 5,000/5,000  1,000 samples/s  loss 0.5000"),
        ({"loss": None, "steps": 0}, "epoch 1/2  step 0/5,000  1,000 samples/s"),
        ({"epoch": 1}, "epoch 2/2  step 1,250/5,000  1,000 samples/s  30.0 min left  loss 0.5000"),
    ],
)
def test_a_line_of_progress(changes: dict[str, Any], line: str) -> None:
    assert progress_line({**WINDOW, **changes}) == line


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_table_of_stages_leaves_out_what_does_not_fit(width: int) -> None:
    console = Console(width=width, file=None)
    with console.capture() as captured:
        console.print(stage_table([ROW], width))
    head, line = captured.get().splitlines()
    assert max(len(head), len(line)) <= width
    assert "augment.random_resized_crop" in line
    for name, least in (("stage", 0), ("items/s", 0), ("service", 0), ("MB/s", 120), ("cpu", 80)):
        assert (name in head) == (width >= least)


def test_names_with_brackets_are_names(capsys: pytest.CaptureFixture[str]) -> None:
    plan = {"pipeline": "[/x]", "device": "cpu", "cautions": ["mind [bold]this[/y]"]}
    with LiveTable(Console(width=120)) as live:
        live.on_start(plan, "runs/[/z]")
        live.on_evaluation(0, {"[/w]": 0.5})
    assert capsys.readouterr().out.splitlines() == [
        "caution: mind [bold]this[/y]",
        "running [/x] on cpu, into runs/[/z]",
        "epoch 1: [/w] 0.5000",
    ]


def test_a_terminal_gets_a_table_that_is_taken_away(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(width=80, force_terminal=True)
    with LiveTable(console) as live:
        live.on_start({"pipeline": "p", "device": "cpu", "cautions": []}, "runs/x")
        live.on_window({**WINDOW, "stages": [dataclasses.asdict(ROW)]})
    out = capsys.readouterr().out
    assert "augment.random_resized_crop" in out
    assert "running p" not in out
    assert out.endswith("\x1b[2K"), "and its lines are wiped"
