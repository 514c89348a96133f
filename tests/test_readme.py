"""The README's commands and code run, and its layout is the tree's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)
FILES = {
    match.group(1): body
    for language, body in BLOCKS
    if language == "python" and (match := re.match(r"# file: (\S+)\n", body))
}
COMMANDS = [
    line.removeprefix("$ ").strip()
    for language, body in BLOCKS
    if language == "console"
    for line in body.splitlines()
    if line.startswith("$ stoker")
]
SHORT = {"stoker analyze photos": "stoker analyze photos --seconds 2"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the README's files and some pictures."""
    import numpy
    import PIL.Image

    folder = tmp_path_factory.mktemp("readme")
    for name, body in FILES.items():
        (folder / name).write_text(body)
    random = numpy.random.default_rng(0)
    for label in ("cat", "dog"):
        (folder / "pictures" / label).mkdir(parents=True)
        for i in range(20):
            array = random.integers(0, 255, (80, 90, 3), "uint8")
            PIL.Image.fromarray(array).save(folder / "pictures" / label / f"{i}.jpg")
    return folder


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    paths = [str(ROOT / part) for part in ("core", "plugins", "pipelines")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, str(folder)])}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


def test_there_is_something_to_run() -> None:
    assert set(FILES) == {"job.py", "kept.py", "acme.py", "loop.py", "again.py", "mine.py"}
    assert len(COMMANDS) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command: str, folder: Path) -> None:
    words = SHORT.get(command, command).split()
    done = run(
        [
            sys.executable,
            "-c",
            "import sys; from stoker.cli import main; sys.exit(main(sys.argv[1:]))",
            *words[1:],
        ],
        folder,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.slow
def test_the_loop(folder: Path) -> None:
    done = run([sys.executable, "loop.py"], folder)
    assert done.returncode == 0, done.stderr
    assert "4 read 128 = delivered 128" in done.stdout
    for stage in ("read.synthetic", "acme.noise", "augment.flip", "collate.stack", "consumer"):
        assert stage in done.stdout


@pytest.mark.slow
def test_going_on(folder: Path) -> None:
    done = run([sys.executable, "again.py"], folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "4 read 64 = delivered 64\n"


@pytest.mark.slow
def test_watching_in_a_loop_of_ones_own(folder: Path) -> None:
    done = run([sys.executable, "mine.py"], folder)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert 5 <= len(lines) <= 25
    assert "getitem" in done.stdout


def test_the_tree_is_as_described() -> None:
    tree = next(body for language, body in BLOCKS if "core/stoker/  " in body)
    for name in re.findall(r"[a-z_]+/[a-z_/]*|[a-z_]+\.py", tree):
        parts = ("", "core/stoker", "core/stoker/engine", "plugins/stoker_plugins")
        places = [ROOT / part / name for part in parts]
        assert any(place.exists() for place in places), name


def test_lengths_are_as_promised() -> None:
    pipeline = FILES["job.py"].split("def ", 1)[1].strip().splitlines()
    assert len(pipeline) <= 15
    stage = FILES["acme.py"].strip().splitlines()
    assert len(stage) <= 20
