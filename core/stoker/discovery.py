"""Finds plugins: over the entry points of what is installed, or in a checkout."""

from __future__ import annotations

import importlib
import tomllib
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from stoker.hookspecs import GROUP

OWN_DISTRIBUTION = "stoker"


@dataclass(frozen=True)
class Found:
    """An entry point, or its like in a checkout."""

    name: str
    target: str
    distribution: str
    version: str


def installed() -> list[Found]:
    """Return the plugins that installed distributions announce."""
    found = []
    for point in metadata.entry_points(group=GROUP):
        dist = point.dist
        found.append(
            Found(
                point.name,
                point.value,
                dist.name if dist else "unknown",
                dist.version if dist else "",
            )
        )
    return sorted(set(found), key=lambda item: (item.distribution, item.name))


def from_checkout() -> list[Found]:
    """Return the built-in plugins that a checkout's pyproject.toml announces, else nothing."""
    project = Path(__file__).resolve().parents[2] / "pyproject.toml"
    if not project.is_file():
        return []
    table = tomllib.loads(project.read_text("utf-8")).get("project", {})
    if table.get("name") != OWN_DISTRIBUTION:
        return []
    points = table.get("entry-points", {}).get(GROUP, {})
    version = table.get("version", "")
    return [Found(name, target, OWN_DISTRIBUTION, version) for name, target in points.items()]


def load_target(target: str) -> Any:
    """Import "module:attribute" (or a module alone) and return it."""
    module_name, _, attribute = target.partition(":")
    thing: Any = importlib.import_module(module_name)
    for part in filter(None, attribute.split(".")):
        thing = getattr(thing, part)
    return thing
