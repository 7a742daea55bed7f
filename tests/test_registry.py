"""Plug-ins that cannot be loaded, and things that are registered twice."""

from __future__ import annotations

import logging
from importlib.metadata import EntryPoint

import pytest

from remnant import registry
from remnant.errors import InputError
from remnant.registry import Registry


def make_registry() -> Registry[str]:
    return Registry("word", "remnant.words", ["raw"], name_of=lambda word: word)


def test_a_broken_plugin_stops_only_those_who_want_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    points = [EntryPoint("mine", "no_such_module:MINE", "remnant.words")]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    words = make_registry()
    with caplog.at_level(logging.WARNING):
        assert list(words) == ["raw"]
        assert list(words) == ["raw"]
    assert len(caplog.messages) == 1
    assert words.find("raw", "word") == "raw"
    with pytest.raises(InputError, match=r"no_such_module:MINE .* cannot be loaded"):
        words.find("mine", "word")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError("no library"), "no library"),
        (RuntimeError("no driver"), "no driver"),
        (KeyError("HOME"), "'HOME'"),
        (AssertionError(), "AssertionError"),
        (ZeroDivisionError("by zero"), "by zero"),
    ],
)
def test_whatever_a_plugin_ends_in_stops_only_those_who_want_it(
    monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    def fail(point: EntryPoint) -> None:
        raise error

    monkeypatch.setattr(EntryPoint, "load", fail)
    points = [EntryPoint("mine", "mine:MINE", "remnant.words")]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    words = make_registry()
    assert list(words) == ["raw"]
    with pytest.raises(InputError, match=rf"cannot be loaded: {told}\. Repair"):
        words.find("mine", "word")


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(
        InputError, match=r"word must be one of raw; got 'row'\. Did you mean raw\?"
    ):
        make_registry().find("row", "word")


def test_a_name_that_is_no_text_is_refused_like_an_unknown_one() -> None:
    with pytest.raises(InputError, match=r"word must be one of raw; got \['raw'\]"):
        make_registry().find(["raw"], "word")


def test_equal_things_may_be_registered_again_and_others_may_not() -> None:
    words = make_registry()
    assert words.register("raw") == "raw"
    others = Registry[object]("thing", "remnant.things", name_of=lambda _: "same")
    others.register(1)
    with pytest.raises(InputError, match="already a thing named 'same'"):
        others.register(2)


@pytest.mark.parametrize("name", [None, 3, ["raw"], {"raw": 1}])
def test_what_is_no_name_is_refused_like_an_unknown_one(name: object) -> None:
    with pytest.raises(InputError, match="word must be one of raw"):
        make_registry().find(name, "word")
