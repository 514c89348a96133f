"""Checkpoints on disk: whole or skipped, plain values only, the newest kept by step."""

from __future__ import annotations

import json
import os
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch

from stoker.errors import CheckpointError
from stoker.run import checkpoints
from stoker.run.checkpoints import abandon_newer, clean, listed, prune, read, write

FACTS = {"identity": {"pipeline": "toy"}, "epoch": 0, "epochs": 2}


def state(value: float = 1.0) -> dict[str, Any]:
    return {
        "weights": OrderedDict(w=torch.full((3,), value)),
        "betas": (0.9, 0.999),
        "names": ["a", None],
        "size": torch.Size([3]),
    }


def save(run: Path, step: int, value: float = 1.0) -> Path:
    return write(run, step, state(value), FACTS)


def steps(run: Path) -> list[int]:
    return [step for step, _ in listed(run)]


def names(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "checkpoints").iterdir())


def test_what_is_written_is_read(tmp_path: Path) -> None:
    folder = save(tmp_path, 7)
    assert folder == tmp_path / "checkpoints" / "step-7"
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "state.pt"]
    found = read(folder)
    assert found.step == 7
    assert found.state["weights"]["w"].tolist() == [1.0, 1.0, 1.0]
    assert found.state["betas"] == (0.9, 0.999)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["format"] == 1
    assert manifest["identity"] == {"pipeline": "toy"}
    assert manifest["files"]["state.pt"]["bytes"] == (folder / "state.pt").stat().st_size
    assert {"torch", "stoker", "python"} <= manifest["versions"].keys()


def test_a_second_one_of_a_step_takes_the_place_of_the_first(tmp_path: Path) -> None:
    save(tmp_path, 7, 1.0)
    assert read(save(tmp_path, 7, 2.0)).state["weights"]["w"][0] == 2.0
    assert names(tmp_path) == ["step-7"]


@pytest.mark.parametrize("moment", ["before", "between", "after"])
def test_killed_while_one_replaces_another_one_of_both_is_whole(
    moment: str, tmp_path: Path
) -> None:
    old = save(tmp_path, 7, 1.0)
    parent = tmp_path / "checkpoints"
    new = save(tmp_path / "other", 7, 2.0)
    # The states that a kill leaves, in the order of the renames.
    if moment == "before":
        new.rename(parent / ".writing-step-7")
    elif moment == "between":
        old.rename(parent / ".replaced-step-7")
        new.rename(parent / ".writing-step-7")
    else:
        old.rename(parent / ".replaced-step-7")
        new.rename(parent / "step-7")
    clean(tmp_path)
    assert names(tmp_path) == ["step-7"]
    assert read(old).state["weights"]["w"][0] == (2.0 if moment == "after" else 1.0)


def test_S9_what_a_killed_run_was_writing_or_removing_is_cleaned_away(tmp_path: Path) -> None:
    save(tmp_path, 7)
    for name in (".writing-step-9", ".writing-step-3"):
        (tmp_path / "checkpoints" / name).mkdir()
        (tmp_path / "checkpoints" / name / "state.pt").write_bytes(b"half")
    clean(tmp_path)
    assert names(tmp_path) == ["step-7"]


# -- damaged ones ----------------------------------------------------------------------


def cut_off(folder: Path) -> None:
    whole = (folder / "state.pt").read_bytes()
    (folder / "state.pt").write_bytes(whole[:-10])


def flip_a_bit(folder: Path) -> None:
    whole = bytearray((folder / "state.pt").read_bytes())
    whole[len(whole) // 2] ^= 1
    (folder / "state.pt").write_bytes(whole)


def no_manifest(folder: Path) -> None:
    (folder / "manifest.json").unlink()


def no_state(folder: Path) -> None:
    (folder / "state.pt").unlink()


def half_a_manifest(folder: Path) -> None:
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(text[: len(text) // 2])


def edit(**changes: Any) -> Any:
    def edited(folder: Path) -> None:
        manifest = json.loads((folder / "manifest.json").read_text())
        (folder / "manifest.json").write_text(json.dumps({**manifest, **changes}))

    return edited


DAMAGES = [
    (cut_off, "bytes of"),
    (flip_a_bit, "SHA-256 is another"),
    (no_manifest, "is incomplete: it has no manifest.json"),
    (no_state, "state.pt cannot be read: No such file"),
    (half_a_manifest, "manifest.json cannot be read"),
    (edit(format=2), "a checkpoint of format 2; this version reads format 1"),
    (edit(files={}), "does not tell state.pt's size"),
    (edit(files=3), "does not tell state.pt's size"),
    (edit(step="7", saved="now"), "manifest.json does not tell step, saved"),
    (edit(identity=None), "manifest.json does not tell identity"),
]


@pytest.mark.parametrize(("damage", "reason"), DAMAGES)
def test_B58_a_damaged_one_is_told_from_a_whole_one(
    damage: Any, reason: str, tmp_path: Path
) -> None:
    folder = save(tmp_path, 50)
    damage(folder)
    with pytest.raises(CheckpointError, match=reason):
        read(folder)


class Payload:
    """What an attacker puts in: runs on loading, where loading runs anything."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


def test_S15_a_malicious_pickle_does_nothing(tmp_path: Path) -> None:
    folder, mark = save(tmp_path, 1), tmp_path / "mark"
    for save_as in (
        lambda file: torch.save({"step": Payload(mark)}, file),
        lambda file: pickle.dump(Payload(mark), file),
    ):
        with (folder / "state.pt").open("wb") as file:
            save_as(file)
        edit(files={"state.pt": checkpoints._measured(folder / "state.pt")})(folder)
        with pytest.raises(CheckpointError, match="was not loaded, since it is no file of tensors"):
            read(folder)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (Path("x"), "state['a'][1] is a pathlib"),
        (range(3), "state['a'][1] is a builtins.range"),
        (torch.nn.Linear(1, 1), "state['a'][1] is a torch.nn.modules.linear.Linear"),
    ],
)
def test_S15_what_could_not_be_loaded_is_not_written(
    value: Any, place: str, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError) as caught:
        write(tmp_path, 1, {"a": [1, value]}, FACTS)
    assert str(caught.value).startswith(place)
    assert not (tmp_path / "checkpoints").exists()


def test_a_full_disk_leaves_the_older_one_and_no_half_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 7, 1.0)

    def full(state: Any, file: Any) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    for step in (7, 8):
        with pytest.raises(OSError, match="No space left"):
            save(tmp_path, step, 2.0)
    assert names(tmp_path) == ["step-7"]
    assert read(tmp_path / "checkpoints" / "step-7").state["weights"]["w"][0] == 1.0


def test_a_rename_that_fails_puts_the_older_one_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save(tmp_path, 7, 1.0)
    rename = Path.rename

    def fails(self: Path, target: Path) -> Path:
        if self.name.startswith(".writing-"):
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(OSError, match="Input/output"):
        save(tmp_path, 7, 2.0)
    assert names(tmp_path) == ["step-7"]
    assert read(folder).state["weights"]["w"][0] == 1.0


def test_everything_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def noted(descriptor: int) -> None:
        events.append(f"flush {Path(os.readlink(f'/proc/self/fd/{descriptor}')).name}")
        fsync(descriptor)

    def renamed(self: Path, target: Path) -> Path:
        events.append(f"rename {self.name}")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(Path, "rename", renamed)
    save(tmp_path, 7)
    assert events == [
        "flush state.pt",
        "flush manifest.json",
        "flush .writing-step-7",
        "rename .writing-step-7",
        "flush checkpoints",
    ]


# -- which ones are kept ---------------------------------------------------------------


def test_B57_the_order_is_that_of_steps_and_not_of_text_or_time(tmp_path: Path) -> None:
    for step in (1000, 900, 99):
        folder = save(tmp_path, step)
        os.utime(folder, (0, 0))
    for odd in (
        "step-",
        "step-x",
        "step-01",
        "step-1_0",
        "step--5",
        "step-٣",
        "abandoned-step-5000",
    ):
        (tmp_path / "checkpoints" / odd).mkdir()
    (tmp_path / "checkpoints" / "step-7").touch()
    assert steps(tmp_path) == [1000, 900, 99]


@pytest.mark.parametrize(
    ("keep", "protected", "left"),
    [
        (1, [], [1000]),
        (2, [], [1000, 900]),
        (9, [], [1000, 900, 99]),
        (1, [99], [1000, 99]),
        (2, [99, 1000], [1000, 900, 99]),
        (0, [], [1000]),
        (-1, [], [1000]),
    ],
)
def test_B57_the_newest_stay_and_the_protected_ones(
    keep: int, protected: list[int], left: list[int], tmp_path: Path
) -> None:
    for step in (99, 900, 1000):
        save(tmp_path, step)
    prune(tmp_path, keep, [tmp_path / "checkpoints" / f"step-{step}" for step in protected])
    assert steps(tmp_path) == left
    assert names(tmp_path) == sorted(f"step-{step}" for step in left)


def test_those_beyond_the_one_that_is_resumed_are_put_aside(tmp_path: Path) -> None:
    for step in (40, 50, 60):
        save(tmp_path, step)
    assert [path.name for path in abandon_newer(tmp_path, 50)] == ["abandoned-step-60"]
    assert names(tmp_path) == ["abandoned-step-60", "step-40", "step-50"]
    save(tmp_path, 60)
    abandon_newer(tmp_path, 50)
    assert names(tmp_path) == ["abandoned-step-60", "step-40", "step-50"]
