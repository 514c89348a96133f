"""The plugin host: discovery, conflicts, and plugins that break in every way."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker import discovery, plugins
from stoker.errors import PluginConflictError, UnknownNameError, UsageError
from stoker.observer import Observer
from stoker.plugins import Found, Host

Plant = Callable[..., Found]

GOOD = """
    from stoker.plugins import StageEntry, hookimpl
    @hookimpl
    def stoker_stages():
        yield StageEntry("good.add", "toys:Add", "augment", "adds")
"""


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plant]:
    """Return what writes a plugin's module and announces it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("STOKER_DISABLE", raising=False)
    planted: list[str] = []

    def write(
        name: str, source: str, *, dist: str | None = None, version: str = "1.0", at: str = ""
    ) -> Found:
        module = f"planted_{name}_{len(planted)}"
        planted.append(module)
        (tmp_path / f"{module}.py").write_text(textwrap.dedent(source))
        return Found(name, module + at, dist or f"{name}-dist", version)

    yield write
    for module in planted:
        sys.modules.pop(module, None)


def states(host: Host) -> dict[str, str]:
    return {plugin.name: plugin.state for plugin in host.plugins}


# -- plugins that break ----------------------------------------------------------------

BROKEN = {
    "raises on import": ("raise ValueError('no luck')", "ValueError: no luck"),
    "needs what is not there": ("import nowhere_at_all", "ModuleNotFoundError: No module named"),
    "exits on import": ("import sys; sys.exit(3)", "SystemExit: 3"),
    "is no Python": ("def x(:", "SyntaxError: invalid syntax"),
    "base exception": ("raise BaseException('odd')", "BaseException: odd"),
    "cannot say what": (
        """
        class Mute(Exception):
            def __str__(self): raise RuntimeError
        raise Mute
        """,
        "Mute: (its message cannot be shown: RuntimeError)",
    ),
    "misspelt hook": (
        """
        from stoker.plugins import hookimpl
        @hookimpl
        def stoker_stagez(): return []
        """,
        "PluginValidationError: unknown hook 'stoker_stagez'",
    ),
    "second hook misspelt": (
        GOOD
        + """
    @hookimpl
    def stoker_memry(): return []
        """,
        "PluginValidationError: unknown hook 'stoker_memry'",
    ),
    "unmarked hook": (
        "def stoker_stages(): return []",
        "TypeError: stoker_stages is not marked; decorate it with @hookimpl",
    ),
    "wrong argument": (
        """
        from stoker.plugins import hookimpl
        @hookimpl
        def stoker_stages(what): return []
        """,
        "PluginValidationError: Plugin 'bad' for hook 'stoker_stages'",
    ),
}
ANSWERS = {
    "hook raises": ("raise ValueError('later')", "stoker_stages: ValueError: later"),
    "hook exits": ("import sys; sys.exit(1)", "stoker_stages: SystemExit: 1"),
    "raises midway": (
        "yield StageEntry('bad.a', 'toys:Add', 'augment'); raise ValueError('midway')",
        "stoker_stages: ValueError: midway",
    ),
    "not a list": ("return 5", "stoker_stages: TypeError: 'int' object is not iterable"),
    "one entry": (
        "return StageEntry('bad.a', 'toys:Add', 'augment')",
        "stoker_stages: TypeError: 'StageEntry' object is not iterable",
    ),
    "text": ("return 'abc'", "stoker_stages: TypeError: gave 'a', not a StageEntry"),
    "dicts": (
        "return [{'name': 'x'}]",
        "stoker_stages: TypeError: gave {'name': 'x'}, not a Stage",
    ),
    "another family": (
        "return [PolicyEntry('bad.a', 'toys:Add')]",
        "stoker_stages: TypeError: gave PolicyEntry(",
    ),
    "a number as name": (
        "return [StageEntry(5, 'toys:Add', 'augment')]",
        "stoker_stages: TypeError: gave StageEntry(name=5,",
    ),
    "no name": (
        "return [StageEntry('', 'toys:Add', 'augment')]",
        "stoker_stages: ValueError: gave a StageEntry without a name",
    ),
    "one name twice": (
        "return [StageEntry('bad.a', 'toys:Add', 'augment')] * 2",
        "stoker_stages: ValueError: gave two entries named 'bad.a'",
    ),
}


def hook(body: str, name: str = "stoker_stages") -> str:
    return (
        "from stoker.plugins import PolicyEntry, StageEntry, hookimpl\n"
        f"@hookimpl\ndef {name}():\n    {body}\n"
    )


@pytest.mark.parametrize("first", [True, False], ids=["before the good one", "after it"])
@pytest.mark.parametrize(
    ("source", "error"),
    [*BROKEN.values(), *((hook(body), error) for body, error in ANSWERS.values())],
    ids=[*BROKEN, *ANSWERS],
)
def test_a_broken_plugin_is_recorded_and_takes_nobody_down(
    plant: Plant, source: str, error: str, first: bool
) -> None:
    bad, good = plant("bad", source), plant("good", GOOD)
    host = Host([bad, good] if first else [good, bad])
    assert states(host) == {"bad": "broken", "good": "ok"}
    assert list(host.stages) == ["good.add"]
    (record,) = (plugin for plugin in host.plugins if plugin.name == "bad")
    assert record.error.startswith(error)
    assert "\n" not in record.error
    assert "Traceback" in record.trace
    assert record.brings == {}
    assert record.source == "bad-dist 1.0"


def test_what_a_broken_plugin_brought_in_another_family_goes_with_it(plant: Plant) -> None:
    source = GOOD + textwrap.indent(hook("raise ValueError('later')", "stoker_memory"), " " * 4)
    host = Host([plant("half", source)])
    assert states(host) == {"half": "broken"}
    assert host.stages == {}
    assert host.plugins[0].brings == {}


def test_what_is_interrupted_is_not_called_broken(plant: Plant) -> None:
    with pytest.raises(KeyboardInterrupt):
        Host([plant("slow", "raise KeyboardInterrupt")])
    with pytest.raises(KeyboardInterrupt):
        Host([plant("slow", hook("raise KeyboardInterrupt"))])


@pytest.mark.parametrize("target", ["nowhere_at_all", "sys:nothing", "sys:nothing.more", ""])
def test_a_target_that_is_not_there_breaks_its_plugin(target: str) -> None:
    host = Host([Found("bad", target, "d", "1")])
    assert states(host) == {"bad": "broken"}


def test_one_module_under_two_names_breaks_the_second(plant: Plant) -> None:
    good = plant("good", GOOD)
    host = Host([good, Found("again", good.target, "d", "1")])
    assert states(host) == {"good": "ok", "again": "broken"}
    assert list(host.stages) == ["good.add"]


def test_a_plugin_may_be_an_object_of_a_module(plant: Plant) -> None:
    source = """
        from stoker.plugins import StageEntry, hookimpl
        class Plugin:
            __slots__ = ()
            @hookimpl
            def stoker_stages(self):
                return [StageEntry("object.add", "toys:Add", "augment")]
        plugin = Plugin()
    """
    host = Host([plant("object", source, at=":plugin")])
    assert states(host) == {"object": "ok"}
    assert list(host.stages) == ["object.add"]


def test_a_hook_may_bring_nothing(plant: Plant) -> None:
    host = Host([plant("empty", hook("return None")), plant("none", "")])
    assert states(host) == {"empty": "ok", "none": "ok"}
    assert host.stages == {}


# -- conflicts -------------------------------------------------------------------------


def test_one_stage_name_of_two_plugins_is_an_error_naming_both(plant: Plant) -> None:
    one = plant("one", GOOD, dist="acme", version="1.2")
    two = plant("two", GOOD, dist="bolt", version="0.3")
    with pytest.raises(PluginConflictError) as caught:
        Host([one, two])
    assert str(caught.value) == (
        "stages name 'good.add' is claimed by two plugins: 'one' (acme 1.2) and 'two' (bolt 0.3); "
        "uninstall one, or set STOKER_DISABLE=two"
    )
    assert caught.value.exit_code == 2
    assert list(Host([one, two], disable=["two"]).stages) == ["good.add"]


def test_a_broken_plugin_claims_no_name(plant: Plant) -> None:
    both = GOOD + textwrap.indent(hook("raise ValueError", "stoker_data"), " " * 4)
    host = Host([plant("half", both), plant("good", GOOD)])
    assert states(host) == {"half": "broken", "good": "ok"}
    assert list(host.stages) == ["good.add"]


@pytest.mark.parametrize("sources", [("", ""), ("raise ValueError", ""), ("", "raise ValueError")])
def test_two_plugins_of_one_name_are_an_error_naming_both(
    plant: Plant, sources: tuple[str, str]
) -> None:
    one = plant("same", sources[0], dist="acme", version="1.2")
    two = plant("same", sources[1], dist="bolt", version="0.3")
    with pytest.raises(PluginConflictError) as caught:
        Host([one, two])
    assert str(caught.value) == (
        "two plugins are named 'same': one from acme 1.2, one from bolt 0.3; uninstall one of the "
        "distributions, or leave both out with STOKER_DISABLE=same"
    )
    host = Host([one, two], disable=["same"])
    assert [plugin.state for plugin in host.plugins] == ["disabled", "disabled"]


# -- leaving out -----------------------------------------------------------------------


def test_a_disabled_plugin_is_not_even_imported(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOKER_DISABLE", " bad ,worse,, ")
    found = [plant("bad", "raise SystemExit"), plant("good", GOOD)]
    host = Host(found)
    assert states(host) == {"bad": "disabled", "good": "ok"}
    assert found[0].target not in sys.modules
    assert host.notes == ["STOKER_DISABLE names 'worse', which is no plugin here"]


# -- discovery -------------------------------------------------------------------------


def test_in_a_checkout_the_built_in_plugins_are_found_all_the_same(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "installed", lambda: [plant("other", GOOD)])
    host = Host()
    assert set(states(host).values()) == {"ok"}
    assert {"read", "decode", "collate", "step", "other"} <= set(states(host))
    assert {"read.files", "collate.stack", "step.train", "good.add"} <= set(host.stages)
    assert "precision.bf16" in host.precisions
    assert "memory.accumulate" in host.memory
    assert "digits" in host.pipelines
    (note,) = host.notes
    assert "checkout" in note
    assert "pip install -e ." in note


def test_the_installed_plugins_are_those_of_the_checkout() -> None:
    installed = {(item.name, item.target) for item in discovery.installed()}
    checkout = {(item.name, item.target) for item in discovery.from_checkout()}
    assert checkout
    if any(item.distribution == "stoker" for item in discovery.installed()):
        assert checkout <= installed


def test_entry_points_are_read_from_what_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "acme_stoker-2.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-stoker\nVersion: 2.1\n")
    (info / "entry_points.txt").write_text("[stoker]\nacme = acme_stoker\n[other]\nx = y\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert Found("acme", "acme_stoker", "acme-stoker", "2.1") in discovery.installed()
    host = Host()
    (acme,) = (plugin for plugin in host.plugins if plugin.name == "acme")
    assert (acme.state, acme.source) == ("broken", "acme-stoker 2.1")
    assert "read.files" in host.stages


def test_a_folder_that_is_no_checkout_of_ours_announces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "__file__", str(tmp_path / "core/stoker/discovery.py"))
    assert discovery.from_checkout() == []
    (tmp_path / "pyproject.toml").write_text(
        "[project]\nname = 'other'\n[project.entry-points.stoker]\nx = 'y'\n"
    )
    assert discovery.from_checkout() == []


# -- using -----------------------------------------------------------------------------

MISTAKEN = """
    from stoker.plugins import PolicyEntry, StageEntry, PipelineEntry, DataEntry, hookimpl
    @hookimpl
    def stoker_stages():
        yield StageEntry("toy.add", "toys:Add", "augment")
        yield StageEntry("toy.lists", "toys:Lists", "decode")
        yield StageEntry("toy.other", "toys:Add", "augment")
        yield StageEntry("toy.gone", "toys:Gone", "augment")
        yield StageEntry("toy.nowhere", "nowhere_at_all:Gone", "augment")
        yield StageEntry("toy.function", "os:getcwd", "augment")
        yield StageEntry("toy.exits", __name__ + ":exits", "augment")
    @hookimpl
    def stoker_precisions():
        yield PolicyEntry("precision.odd", "toys:Add")
        yield PolicyEntry("precision.fp64", "stoker_plugins.precision:Fp32")
    @hookimpl
    def stoker_memory():
        yield PolicyEntry("memory.function", "os:getcwd")
    def __getattr__(name):
        if name == "exits": raise SystemExit(4)
        raise AttributeError(name)
"""


@pytest.fixture
def mistaken(plant: Plant) -> Host:
    return Host([plant("mistaken", MISTAKEN), plant("bad", "raise ValueError")])


def test_a_stage_that_agrees_with_its_entry_is_its_class(mistaken: Host) -> None:
    assert mistaken.stage_class("toy.add").__name__ == "Add"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "toy.lists",
            "stage 'toy.lists' is announced as kind 'decode', but toys:Lists says name "
            "'toy.lists', kind 'collate'; make the StageEntry agree",
        ),
        ("toy.other", "stage 'toy.other' is announced as kind 'augment', but toys:Add says name"),
        (
            "toy.gone",
            "'toy.gone' could not be loaded from toys:Gone: AttributeError: module 'toys'",
        ),
        ("toy.nowhere", "'toy.nowhere' could not be loaded from nowhere_at_all:Gone: ModuleNotF"),
        ("toy.function", "stage 'toy.function' is announced as os:getcwd, which is no Stage"),
        ("toy.exits", "'toy.exits' could not be loaded from planted_mistaken_0:exits: SystemExit"),
    ],
)
def test_a_stage_that_is_not_what_was_announced_is_told(
    mistaken: Host, name: str, told: str
) -> None:
    with pytest.raises(UsageError) as caught:
        mistaken.stage_class(name)
    assert str(caught.value).startswith(told)


@pytest.mark.parametrize(
    ("family", "name", "told"),
    [
        ("precision", "odd", "policy 'precision.odd' is announced as toys:Add, which is no Prec"),
        ("precision", "fp64", "policy 'precision.fp64' is announced, but stoker_plugins.precision"),
        ("memory", "memory.function", "policy 'memory.function' is announced as os:getcwd, which"),
    ],
)
def test_a_policy_that_is_not_what_was_announced_is_told(
    mistaken: Host, family: str, name: str, told: str
) -> None:
    with pytest.raises(UsageError) as caught:
        mistaken.policy_class(family, name)
    assert str(caught.value).startswith(told)


def test_an_unknown_name_is_told_with_the_nearest_and_who_is_broken(mistaken: Host) -> None:
    with pytest.raises(UnknownNameError) as caught:
        mistaken.stage_class("toy.ad")
    assert str(caught.value) == (
        "no stage 'toy.ad'; did you mean 'toy.add'? (stoker stages lists 7; broken plugins: bad, "
        "see stoker plugins)"
    )
    with pytest.raises(UnknownNameError, match=r"no precision policy 'precision.fp46'; did you"):
        mistaken.policy_class("precision", "fp46")
    with pytest.raises(UnknownNameError, match=r"no pipeline 'digits' \(registered: 0"):
        mistaken.pipeline_factory("digits")
    with pytest.raises(UnknownNameError, match=r"no data set 'digits'"):
        mistaken.data_maker("digits")


def test_observers_are_made_anew_for_each_run(plant: Plant) -> None:
    source = """
        from stoker.observer import Observer
        from stoker.plugins import hookimpl
        @hookimpl
        def stoker_observers():
            return [Observer()]
    """
    host = Host([plant("watching", source)])
    (one,), (two,) = host.observers(), host.observers()
    assert isinstance(one, Observer)
    assert one is not two


@pytest.mark.parametrize("body", ["return ['x']", "raise ValueError('x')", "return 3", "exit(1)"])
def test_a_plugin_whose_observers_are_wrong_breaks_alone(plant: Plant, body: str) -> None:
    good = "from stoker.observer import Observer\n" + hook("yield Observer()", "stoker_observers")
    host = Host([plant("bad", hook(body, "stoker_observers")), plant("good", good)])
    assert states(host) == {"bad": "ok", "good": "ok"}
    assert len(host.observers()) == 1
    assert states(host) == {"bad": "broken", "good": "ok"}
    assert host.plugins[0].error.startswith("stoker_observers: ")
    assert len(host.observers()) == 1


def test_the_default_host_is_made_once() -> None:
    assert plugins.host() is plugins.host()


def test_a_target_may_be_a_module_or_lie_deep_in_it() -> None:
    assert discovery.load_target("os.path").__name__.endswith("path")
    joined: Any = discovery.load_target("pathlib:Path.joinpath")
    assert joined is Path.joinpath
