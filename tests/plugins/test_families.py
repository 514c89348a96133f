"""What the families augment, collate and transfer announce."""

from __future__ import annotations

import subprocess
import sys

import pytest

from stoker.plugins import load_target
from stoker.stages import Stage
from stoker.testing import check_stage
from stoker_plugins import augment, collate, transfer

FAMILIES = (augment, collate, transfer)
ENTRIES = [entry for family in FAMILIES for entry in family.stoker_stages()]


@pytest.mark.parametrize("entry", ENTRIES, ids=[entry.name for entry in ENTRIES])
def test_announcements_agree_with_the_classes(entry):
    cls = load_target(entry.target)
    assert issubclass(cls, Stage)
    assert (cls.name, cls.kind) == (entry.name, entry.kind)
    assert entry.summary


@pytest.mark.parametrize("entry", ENTRIES, ids=[entry.name for entry in ENTRIES])
def test_examples_run(entry):
    cls = load_target(entry.target)
    names = {"augment": augment, "collate": collate, "transfer": transfer, "my_transform": len}
    stage = eval(cls.example, names)
    assert type(stage) is cls
    check_stage(stage)


@pytest.mark.parametrize("family", FAMILIES)
def test_exports_are_the_stages(family):
    targets = {entry.target.partition(":")[2] for entry in family.stoker_stages()}
    assert set(family.__all__) == targets
    for name in family.__all__:
        assert getattr(family, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'Missing'"):
        family.Missing


def test_listing_imports_no_torch():
    code = (
        "import sys, stoker_plugins.augment as a, stoker_plugins.collate as c;"
        "import stoker_plugins.transfer as t, stoker_pipelines as p, stoker_plugins.shards;"
        "names = [e.name for m in (a, c, t) for e in m.stoker_stages()];"
        "names += [e.name for e in p.stoker_pipelines()] + [e.name for e in p.stoker_data()];"
        "heavy = {'torch', 'numpy', 'PIL', 'sklearn'} & set(sys.modules);"
        "print(len(names), sorted(heavy))"
    )
    path = [entry for entry in sys.path if entry]
    result = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}; {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    count, heavy = result.stdout.split(maxsplit=1)
    assert int(count) > len(ENTRIES)
    assert heavy == "[]\n"
