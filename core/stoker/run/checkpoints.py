"""Checkpoints on disk: `<run>/checkpoints/step-<n>/` with state.pt and manifest.json.

Each is written aside, flushed to the disk, and renamed, so that a folder of that name is
whole; its checksum says whether it still is.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
import shutil
import time
import warnings
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from stoker.errors import CheckpointError, reason_of
from stoker.jsonable import to_json
from stoker.run.versions import versions

FORMAT = 1
FOLDER, STATE, MANIFEST = "checkpoints", "state.pt", "manifest.json"
# Of folders that are no checkpoint: being written, and about to be replaced by one.
_ASIDE, _REPLACED, _ABANDONED = ".writing-", ".replaced-", "abandoned-"
# What a manifest has to tell beside its files.
_TOLD = {"step": int, "epoch": int, "epochs": int, "saved": int | float, "identity": dict}
_PLAIN = (dict, OrderedDict, Counter, list, tuple, set, str, bytes, int, float, bool, type(None))


@dataclass(frozen=True)
class Checkpoint:
    """One that was read whole."""

    folder: Path
    manifest: Mapping[str, Any]
    state: dict[str, Any]

    @property
    def step(self) -> int:
        """Steps that the run had taken."""
        return int(self.manifest["step"])


def write(run: Path, step: int, state: Mapping[str, Any], facts: Mapping[str, Any]) -> Path:
    """Write a checkpoint, durably, in the place of one of the same step.

    Args:
        run: the run's folder.
        step: steps that the run has taken.
        state: tensors, numbers and text, in dicts, lists and tuples.
        facts: what its manifest holds beside sizes, checksums and versions.

    Raises:
        CheckpointError: the state holds something else.
        OSError: it cannot be written; what was there before stays.
    """
    import torch

    odd = next(_not_plain(state, "state"), None)
    if odd is not None:
        raise CheckpointError(f"{odd}; a state may hold tensors, numbers, text, dicts, lists")
    parent = run / FOLDER
    target, aside = parent / f"step-{step}", parent / f"{_ASIDE}step-{step}"
    replaced = parent / f"{_REPLACED}step-{step}"
    shutil.rmtree(aside, ignore_errors=True)
    try:
        aside.mkdir(parents=True)
        with (aside / STATE).open("wb") as file:
            torch.save(state, file)
            _to_disk(file)
        manifest = {
            "format": FORMAT,
            "step": step,
            "saved": time.time(),
            **facts,
            "files": {STATE: _measured(aside / STATE)},
            "versions": versions(),
        }
        with (aside / MANIFEST).open("w", encoding="utf-8") as text:
            text.write(to_json(manifest, indent=1) + "\n")
            _to_disk(text)
        _folder_to_disk(aside)
        if target.exists():
            shutil.rmtree(replaced, ignore_errors=True)
            target.rename(replaced)
        aside.rename(target)
        _folder_to_disk(parent)
    except BaseException:
        if replaced.exists() and not target.exists():
            replaced.rename(target)
        raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    shutil.rmtree(replaced, ignore_errors=True)
    return target


def read(folder: Path) -> Checkpoint:
    """Read a checkpoint; nothing in it is ever executed.

    Raises:
        CheckpointError: it is damaged, incomplete, or holds more than plain values.
    """
    import torch

    manifest = read_manifest(folder)
    expected = manifest["files"].get(STATE) if isinstance(manifest.get("files"), dict) else None
    if not isinstance(expected, dict) or not {"bytes", "sha256"} <= expected.keys():
        raise CheckpointError(f"{folder}: its {MANIFEST} does not tell {STATE}'s size and SHA-256")
    state = folder / STATE
    try:
        nbytes = state.stat().st_size
        if nbytes != expected["bytes"]:
            wanted = f"{expected['bytes']:,}" if isinstance(expected["bytes"], int) else "?"
            raise CheckpointError(f"{folder}: {STATE} has {nbytes:,} bytes of {wanted}")
        if _measured(state) != expected:
            raise CheckpointError(f"{folder}: {STATE} is damaged: its SHA-256 is another")
        with warnings.catch_warnings(action="ignore"):  # of odd pickles, which are refused
            loaded = torch.load(state, map_location="cpu", weights_only=True)
    except CheckpointError:
        raise
    except pickle.UnpicklingError as error:
        first = str(error).strip().splitlines()[0]
        raise CheckpointError(
            f"{folder}: {STATE} was not loaded, since it is no file of tensors and plain values "
            f"alone: {first}"
        ) from error
    except Exception as error:
        raise _named(error, f"{folder}: {STATE} cannot be read") from error
    if not isinstance(loaded, dict):
        raise CheckpointError(f"{folder}: {STATE} holds a {type(loaded).__name__}, not a dict")
    return Checkpoint(folder, manifest, loaded)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return what a checkpoint says about itself.

    Raises:
        CheckpointError: it says nothing, or is of another format.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(f"{folder} is incomplete: it has no {MANIFEST}") from error
    except (OSError, ValueError) as error:
        raise _named(error, f"{folder}: {MANIFEST} cannot be read") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        given = manifest.get("format") if isinstance(manifest, dict) else None
        raise CheckpointError(
            f"{folder}: a checkpoint of format {given}; this version reads format {FORMAT}"
        )
    odd = [name for name, kind in _TOLD.items() if not isinstance(manifest.get(name), kind)]
    if odd:
        raise CheckpointError(f"{folder}: its {MANIFEST} does not tell {', '.join(odd)}")
    return manifest


def listed(run: Path) -> list[tuple[int, Path]]:
    """Return a run's checkpoints, whole or not, by step, the newest first."""
    found = []
    for path in (run / FOLDER).glob("step-*"):
        number = re.fullmatch(r"step-(0|[1-9][0-9]*)", path.name, re.ASCII)
        if number and path.is_dir():
            found.append((int(number[1]), path))
    return sorted(found, reverse=True)


def prune(run: Path, keep: int, protected: Collection[Path] = ()) -> None:
    """Remove all but the newest checkpoints; never a protected one."""
    for _, path in listed(run)[max(1, keep) :]:
        if path not in protected:
            # Under another name first: killed on the way, it is no damaged checkpoint.
            aside = path.with_name(_ASIDE + path.name)
            shutil.rmtree(aside, ignore_errors=True)
            shutil.rmtree(path.rename(aside), ignore_errors=True)


def clean(run: Path) -> None:
    """Remove what a killed run left half-written; call it with the run locked."""
    parent = run / FOLDER
    for path in parent.glob(f"{_ASIDE}*"):
        shutil.rmtree(path, ignore_errors=True)
    for path in parent.glob(f"{_REPLACED}*"):
        target = parent / path.name.removeprefix(_REPLACED)
        if target.exists():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.rename(target)


def abandon_newer(run: Path, step: int) -> list[Path]:
    """Rename the checkpoints beyond a step, which a run that goes on from it will not reach so.

    Returns their new places.
    """
    renamed = []
    for number, path in listed(run):
        if number > step:
            place = path.with_name(_ABANDONED + path.name)
            shutil.rmtree(place, ignore_errors=True)
            renamed.append(path.rename(place))
    return renamed


def _not_plain(value: Any, place: str) -> Iterator[str]:
    """Yield what could not be loaded without running code of its own."""
    import torch

    kind = type(value)
    if kind in (torch.Tensor, torch.nn.Parameter, torch.Size, torch.dtype, torch.device):
        return
    if kind not in _PLAIN:
        yield f"{place} is a {kind.__module__}.{kind.__qualname__}"
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _not_plain(key, f"a key of {place}")
            yield from _not_plain(item, f"{place}[{key!r}]")
    elif isinstance(value, (list, tuple, set)):
        for index, item in enumerate(value):
            yield from _not_plain(item, f"{place}[{index}]")


def _measured(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}


def _named(error: Exception, what: str) -> CheckpointError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else reason_of(error)
    return CheckpointError(f"{what}: {reason}")


def _to_disk(file: IO[Any]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _folder_to_disk(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
