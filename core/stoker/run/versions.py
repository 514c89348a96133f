"""What a result was measured with: machine and versions, without names of hosts or users."""

from __future__ import annotations

import platform
from importlib import metadata
from pathlib import Path
from typing import Any

from stoker.measure import host

_PACKAGES = ("torch", "numpy", "pillow", "webdataset")


def versions() -> dict[str, Any]:
    """Return machine, cores and versions, JSON-able."""
    from stoker import __version__

    found: dict[str, Any] = {"stoker": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    found["machine"] = f"{platform.system()} {platform.machine()}, {processor()}"
    found["cores"] = host.cores()
    return found


def processor() -> str:
    """Return the processor's model name."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        return platform.processor() or "unknown processor"
    return platform.processor() or "unknown processor"
