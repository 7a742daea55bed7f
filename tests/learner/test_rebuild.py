"""A store that is rebuilt from its exemplars keeps the settings that nobody asked to change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from remnant.learner import Learner, learn_into_store, upkeep
from remnant.learner import store as store_module
from remnant.learner.epoch_ends import EpochEnds
from remnant.learner.learner_state import LearnerParameters
from remnant.learner.upkeep import rebudget_store, rebuild_store
from remnant.learner.work_folder import has_checkpoint
from remnant.phases import StepReport
from tests.support.command_line import Command
from tests.support.small_learner import TINY, Counter, stripes
from tests.support.striped_photos import photos

OPTIONS = {"training.checkpoint_every_steps": 2, "augment.padding": 2, "memory.selection": "random"}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "x.remnant"
    learn_into_store(path, *stripes("a", "c"), **TINY | {"options": OPTIONS})
    return path


class AskedError(Exception):
    """In place of an update."""


def asked(store: Path, monkeypatch: pytest.MonkeyPatch, **given: Any) -> LearnerParameters:
    """The parameters that a store would be rebuilt with."""
    found: list[LearnerParameters] = []

    def take(_: None, parameters: LearnerParameters, *__: Any) -> None:
        found.append(parameters)
        raise AskedError

    with monkeypatch.context() as patch:
        patch.setattr(upkeep, "run_update", take)
        with pytest.raises(AskedError):
            rebuild_store(store, **given)
    return found[0]


def test_with_the_same_method_all_settings_are_kept(store: Path) -> None:
    before = Learner.load(store)
    rebuild_store(store, epochs=3)
    after = Learner.load(store)
    assert after.get_params() == before.get_params() | {"epochs": 3}
    assert after.settings_.method.name == "pixels"
    assert after.settings_.memory == before.settings_.memory
    assert after.settings_.augment == before.settings_.augment
    assert after.history_[-1]["epochs"] == 3


def test_another_method_takes_over_what_suits_any(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = asked(store, monkeypatch, method="er", options={"method.replay_weight": 2})
    assert (found.method, found.encoder, found.image_size) == ("er", None, None)
    assert (found.budget, found.augment, found.codec, found.epochs) == (
        TINY["budget"],
        "none",
        None,
        None,
    )
    kept = {key: value for key, value in OPTIONS.items() if not key.startswith("memory.")}
    assert found.options == kept | {"method.replay_weight": 2}
    found = asked(store, monkeypatch, encoder="efficientnet-lite0")
    assert (found.method, found.encoder) == (None, "efficientnet-lite0")  # ranpac is chosen


def test_naming_its_own_encoder_changes_nothing(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = asked(store, monkeypatch, epochs=3)
    named = asked(store, monkeypatch, epochs=3, encoder="none")
    assert (named.codec, named.image_size, named.options) == ("raw", 8, OPTIONS)
    assert named == plain.model_copy(update={"encoder": "none"})


def test_a_changed_budget_is_kept_though_an_option_says_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "x.remnant"
    options = OPTIONS | {"memory.budget": "6images/class"}
    learn_into_store(store, *stripes("a", "c"), **TINY | {"options": options})
    rebudget_store(store, "3images/class")
    for given in ({"epochs": 3}, {"method": "er"}):
        found = asked(store, monkeypatch, **given)
        assert found.budget == "3images/class"
        assert "memory.budget" not in (found.options or {})


def test_a_method_on_an_encoder_keeps_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "x.remnant"
    learn_into_store(store, photos(0, 2), ["a"] * 2, method="ncm", quiet=True, threads=1)
    monkeypatch.setattr("remnant.encoders.lite0.is_installed", lambda: False)

    def choice(**given: Any) -> tuple[str | None, str | None]:
        found = asked(store, monkeypatch, **given)
        return found.method, found.encoder

    assert choice(image_size=128) == ("ncm", "efficientnet-lite0")
    assert choice(encoder="hf:a/b") == ("ncm", "hf:a/b")
    assert choice(method="tuned") == ("tuned", "efficientnet-lite0")
    assert choice(encoder="none") == (None, "none")
    assert choice(method="er") == ("er", None)


def test_an_interrupted_rebuild_says_how_to_continue_and_continues(
    command: Command, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, seen = store.read_bytes(), []

    def interrupt(_: object, report: StepReport) -> None:
        if report.step == 5:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(EpochEnds, "on_step", interrupt)
        outcome = command("rebuild", store, "--epochs", "3")
    assert outcome.code == 130
    assert outcome.err.splitlines()[-1] == (
        "stopped. Run the same command again to continue from the last checkpoint: "
        f"remnant rebuild {store} --epochs 3"
    )
    assert store.read_bytes() == before
    assert "if stopped, run the same command again." in command("inspect", store).out
    monkeypatch.setattr(EpochEnds, "on_step", lambda _, report: seen.append(report.step))
    assert command("rebuild", store, "--epochs", "3").code == 0
    assert seen[0] > 0


@pytest.mark.parametrize("line", ["undo", "rebudget 3images/class", "thin c --keep 2"])
def test_what_has_no_checkpoints_does_not_continue_from_those_of_another_command(
    command: Command, store: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    learn_into_store(store, *stripes("e"), quiet=True)
    with pytest.raises(KeyboardInterrupt):
        learn_into_store(store, *stripes("f"), quiet=True, watchers=(Counter(9),))
    assert has_checkpoint(store)
    before, (name, *rest) = store.read_bytes(), line.split()
    monkeypatch.setattr(store_module, "put_in_place", interrupt)
    monkeypatch.setattr(store_module, "write_archive", interrupt)
    outcome = command(name, store, *rest)
    assert outcome.code == 130
    assert outcome.err.splitlines()[-1] == (
        "stopped. The store is unchanged, and the same command can be run again: "
        f"{' '.join(['remnant', name, str(store), *rest])}"
    )
    assert store.read_bytes() == before


def test_a_rebuild_is_told_one_length(command: Command, store: Path) -> None:
    told = command("rebuild", store, "--epochs", "3", "--minutes", "1").sentence
    assert "--epochs or --minutes, not both" in told
