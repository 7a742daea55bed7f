"""A few tries of every attack, and many of those that are marked slow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from remnant.methods import METHODS
from tests.attacks import (
    crash_states,
    exported_models,
    failing_calls,
    forgetting,
    hostile_archives,
    hostile_files,
    kill_points,
    mutants,
    same_seeds,
)
from tests.attacks.tally import Tally
from tests.support.small_learner import TaughtPixels
from tests.support.worlds import SEED_OFFSET

Attack = Callable[[Path, int, int], Tally]
SMALL: list[tuple[Attack, int]] = [
    (crash_states.attack, 250),
    (failing_calls.attack, 20),
    (mutants.attack, 60),
    (hostile_files.attack, 60),
    (hostile_archives.attack, 60),
    (forgetting.attack, 4),
    (same_seeds.attack, 2),
]
LARGE: list[tuple[Attack, int]] = [
    (crash_states.attack, 5000),
    (failing_calls.attack, 400),
    (mutants.attack, 2000),
    (hostile_files.attack, 2000),
    (exported_models.attack, 200),
    (hostile_archives.attack, 1000),
    (forgetting.attack, 100),
    (same_seeds.attack, 20),
]


@pytest.fixture(autouse=True)
def pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "pixels", TaughtPixels)


def name_of(attack: object) -> str:
    return getattr(attack, "__module__", str(attack)).rpartition(".")[2]


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@pytest.mark.parametrize(("attack", "count"), SMALL, ids=name_of)
def test_a_few_tries_break_nothing(attack: Attack, count: int, tmp_path: Path) -> None:
    tally = attack(tmp_path / "attacked", SEED_OFFSET, count)
    assert tally.problems == []
    assert tally.tried >= count // 2


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@pytest.mark.parametrize(("attack", "count"), LARGE, ids=name_of)
def test_many_tries_break_nothing(attack: Attack, count: int, tmp_path: Path) -> None:
    assert attack(tmp_path / "attacked", SEED_OFFSET + 1, count).problems == []


def test_writers_that_leave_out_a_sync_are_noticed(tmp_path: Path) -> None:
    tally = crash_states.controls(tmp_path / "controls", SEED_OFFSET)
    assert tally.problems == []
    assert tally.tried == 8


def test_a_few_kills_cost_no_bit(tmp_path: Path) -> None:
    tally = kill_points.attack_from_outside(tmp_path / "killed", SEED_OFFSET, 3)
    assert tally.problems == []
    assert tally.tried == 3


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_kill_at_any_operation_costs_no_bit(tmp_path: Path) -> None:
    tally = kill_points.attack_from_outside(tmp_path / "killed", SEED_OFFSET, 1000)
    assert tally.problems == []
    assert tally.tried > 10
