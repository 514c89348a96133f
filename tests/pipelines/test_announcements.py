from __future__ import annotations

import inspect

import pytest
import typer
from typer.testing import CliRunner

import stoker_pipelines
from stoker.pipeline import Pipeline
from stoker.plugins import load_target

DATA = list(stoker_pipelines.stoker_data())


def test_names():
    assert [entry.name for entry in stoker_pipelines.stoker_pipelines()] == ["digits", "photos"]
    assert [entry.name for entry in DATA] == ["digits", "photos", "shards"]


def test_pipelines_are_functions_with_defaults():
    for entry in stoker_pipelines.stoker_pipelines():
        factory = load_target(entry.target)
        assert all(
            parameter.default is not parameter.empty
            for parameter in inspect.signature(factory).parameters.values()
        )
        assert entry.summary


def test_a_pipeline_bears_its_name(digits_folder, photos_folder):
    folders = {"digits": digits_folder, "photos": photos_folder}
    for entry in stoker_pipelines.stoker_pipelines():
        pipeline = load_target(entry.target)(str(folders[entry.name]))
        assert isinstance(pipeline, Pipeline)
        assert pipeline.name == entry.name


@pytest.mark.parametrize("entry", DATA, ids=[entry.name for entry in DATA])
def test_makers_become_commands(entry):
    app = typer.Typer()
    app.command()(load_target(entry.target))
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0, result.output
    part = "--val " if entry.name == "photos" else "--val-share"
    for option in (part, "--samples-per-shard", "--force"):
        assert option in result.output
    assert "OUT" in result.output.upper()


def test_a_maker_runs_as_a_command(tmp_path):
    app = typer.Typer()
    app.command()(load_target(DATA[0].target))
    out = tmp_path / "out"
    result = CliRunner().invoke(app, [str(out), "--val-share", "0.5"], standalone_mode=False)
    assert result.exit_code == 0, result.output
    assert result.return_value["samples"] == 1797
    assert len(list(out.glob("*.tar"))) == result.return_value["shards"]
