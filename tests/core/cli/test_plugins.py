"""`stoker plugins`: what is plugged in, from where, and what is broken."""

from __future__ import annotations

import pytest

from stoker import plugins
from tests.core.cli.conftest import Plug, Stoker

BLUR = """
    from stoker.plugins import StageEntry, hookimpl
    @hookimpl
    def stoker_stages(): yield StageEntry("acme.blur", "toys:Add", "augment", "blurs")
"""


def test_plugins_are_listed_with_distribution_state_and_what_they_bring(
    stoker: Stoker, plug: Plug
) -> None:
    plug("acme", BLUR, "acme-stoker", "1.2")
    told = stoker("plugins")
    assert (told.code, told.err) == (0, "")
    (line,) = (line for line in told.out.splitlines() if line.startswith("acme "))
    assert line.split() == ["acme", "acme-stoker", "1.2", "ok", "stages:", "acme.blur"]
    assert "\nread " in told.out


def test_broken_and_disabled_plugins_are_listed_too(
    stoker: Stoker, plug: Plug, monkeypatch: pytest.MonkeyPatch
) -> None:
    plug("bad", "raise ValueError('no [luck] here')", "bad-dist", "0.1")
    plug("off", BLUR)
    monkeypatch.setenv("STOKER_DISABLE", "off,typo")
    told = stoker("plugins")
    assert told.code == 0
    lines = told.out.splitlines()
    (bad,) = (line for line in lines if line.startswith("bad "))
    assert bad.split(maxsplit=4) == [
        "bad",
        "bad-dist",
        "0.1",
        "broken",
        "ValueError: no [luck] here",
    ]
    (off,) = (line for line in lines if line.startswith("off "))
    assert off.split() == ["off", "acme-stoker", "1.2", "disabled"]
    assert "Traceback" not in told.out
    assert lines[-1] == "note: STOKER_DISABLE names 'typo', which is no plugin here"


def test_one_plugin_is_shown_with_the_trace_of_its_error(stoker: Stoker, plug: Plug) -> None:
    plug("bad", "raise ValueError('no luck')")
    told = stoker("plugins", "bad")
    assert told.code == 0
    assert "Traceback" in told.out
    assert "raise ValueError('no luck')" in told.out
    assert "\nread " not in told.out


def test_an_unknown_plugin_is_told(stoker: Stoker) -> None:
    told = stoker("plugins", "reed")
    assert (told.code, told.out) == (2, "")
    assert told.err == "stoker: no plugin 'reed'; did you mean 'read'?\n"


def test_plugins_as_one_object(stoker: Stoker, plug: Plug) -> None:
    plug("bad", "raise ValueError('no luck')", "bad-dist", "0.1")
    plug("acme", BLUR)
    told = stoker("plugins", "--json")
    assert (told.code, told.err) == (0, "")
    listed = {plugin["name"]: plugin for plugin in told.json["plugins"]}
    acme = listed["acme"]
    assert acme["brings"] == {"stages": ["acme.blur"]} | {
        family: [] for family in acme["brings"] if family != "stages"
    }
    assert (acme["distribution"], acme["version"], acme["state"]) == ("acme-stoker", "1.2", "ok")
    assert (listed["bad"]["state"], listed["bad"]["error"]) == ("broken", "ValueError: no luck")
    assert listed["read"]["brings"]["stages"]
    (only,) = stoker("plugins", "acme", "--json").json["plugins"]
    assert only == acme
    assert stoker("plugins", "reed", "--json").json["exit_code"] == 2


def test_a_checkout_says_that_it_is_one(stoker: Stoker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "installed", list)
    plugins.host.cache_clear()
    try:
        told = stoker("plugins")
        listed = stoker("stages")
        as_json = stoker("plugins", "--json").json
    finally:
        plugins.host.cache_clear()
    assert "note: no installed entry points" in told.out
    assert "note: no installed entry points" in listed.out
    assert "read.files" in listed.out
    assert len(as_json["notes"]) == 1
    assert {plugin["state"] for plugin in as_json["plugins"]} == {"ok"}
