"""Environments of their own for `bench.peers`' contestants whose packages fight with others'.

Made on demand, once, by `python -m venv` and pip; what cannot be installed is reported.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.peers_pictures import CACHE

INSTALL_S = 300
_COMMON = ("pillow", "psutil", "numpy", "simplejpeg")
_TORCH = ("torch==2.13.0", "pluggy")
"""What Stoker's stages need, for the fast function."""
ENVIRONMENTS = {
    "tf": ("tensorflow-cpu==2.21.0", *_COMMON),
    "dali": ("nvidia-dali-cuda120==2.4.0", *_COMMON),
    "litdata": ("litdata==0.2.76", *_TORCH, *_COMMON),
    "streaming": ("mosaicml-streaming==0.13.0", *_TORCH, *_COMMON),
}
"""What pip installs in each."""


class MissingError(RuntimeError):
    """An environment that could not be made, and why."""


def python_of(name: str, cache: Path = CACHE) -> str:
    """Return an environment's Python, making the environment if it is not there.

    Args:
        name: of the environment; "": this process's own.
        cache: folder that keeps them.

    Raises:
        MissingError: it could not be made.
    """
    if not name:
        return sys.executable
    folder, packages = cache / f"env-{name}", ENVIRONMENTS[name]
    python, done = folder / "bin" / "python", folder / "stoker-bench.json"
    if done.is_file() and json.loads(done.read_text()) == list(packages) and python.exists():
        return str(python)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        _command([sys.executable, "-m", "venv", str(folder)], "python -m venv")
        install = [str(python), "-m", "pip", "install", "--quiet", "--no-input", *packages]
        _command(install, f"pip install {' '.join(packages)}")
    except MissingError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    done.write_text(json.dumps(packages))
    return str(python)


def _command(words: Sequence[str], told_as: str) -> None:
    try:
        subprocess.run(words, check=True, capture_output=True, text=True, timeout=INSTALL_S)
    except subprocess.TimeoutExpired as error:
        raise MissingError(f"{told_as} took over {INSTALL_S} s") from error
    except subprocess.CalledProcessError as error:
        lines = [line for line in error.stderr.splitlines() if line.startswith("ERROR")]
        last = (lines or error.stderr.strip().splitlines() or ["without a word"])[-1]
        raise MissingError(f"{told_as} failed: {last}") from error
