"""A few tries of every attack, and many of those that are marked slow."""

from __future__ import annotations

import mmap
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.attacks import PAGE, kept_table
from remnant.errors import InputError
from remnant.learner.store import read_store
from remnant.methods import METHODS
from tests.attacks import (
    crash_states,
    exported_models,
    failing_calls,
    forgetting,
    fuzz_targets,
    hostile_archives,
    hostile_files,
    hostile_requests,
    kill_points,
    mutants,
    run_kills,
    same_seeds,
)
from tests.attacks.tally import Cost, Tally
from tests.support.small_learner import TaughtPixels
from tests.support.worlds import SEED_OFFSET

Attack = Callable[[Path, int, int], Tally]
SMALL: list[tuple[Attack, int]] = [
    (crash_states.attack, 24),
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
    (hostile_files.attack, 1000),
    (hostile_requests.attack, 200),
    (run_kills.attack_from_outside, 40),
    (exported_models.attack, 200),
    (hostile_archives.attack, 1000),
    (forgetting.attack, 100),
    (same_seeds.attack, 20),
]


def test_the_page_tells_what_was_tried() -> None:
    """After `python benchmarks/attacks.py --write`."""
    assert kept_table() in PAGE.read_text()


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


def test_a_few_hostile_requests_harm_nobody(tmp_path: Path) -> None:
    tally = hostile_requests.attack(tmp_path / "asked", SEED_OFFSET, 40, with_bombs=False)
    assert tally.problems == []
    assert tally.tried == 40


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


@pytest.mark.slow
@pytest.mark.numeric
def test_a_few_kills_of_runs_cost_no_bit(tmp_path: Path) -> None:
    tally = run_kills.attack_from_outside(tmp_path / "killed", SEED_OFFSET, 2)
    assert tally.problems == []
    assert tally.tried >= 2


# ------------------------------------------------------------------------------------ the attackers


def test_a_wrong_answer_is_noticed(tmp_path: Path) -> None:
    tally = Tally()
    with tally.trying("too slow", seconds=-1.0):
        pass
    with tally.trying("too large", megabytes=-1.0):
        pass
    with tally.trying("a bug"):
        raise KeyError("x")
    with tally.trying("a sentence"):
        raise InputError("it must be so; it is not.")
    assert [problem.partition(":")[0] for problem in tally.problems] == [
        "too slow",
        "too large",
        "a bug",
    ]
    assert tally.tried == 4


def test_memory_that_is_taken_and_given_back_is_measured() -> None:
    cost = Cost()
    with mmap.mmap(-1, 64 << 20) as taken:  # pages that no allocator has kept
        for place in range(0, len(taken), mmap.PAGESIZE):
            taken[place] = 1
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("only Linux tells the peak of a process")
    assert cost.megabytes > 32


@pytest.mark.parametrize("method", mutants.HUNGRY)
def test_a_small_store_cannot_ask_for_much_memory(method: str, tmp_path: Path) -> None:
    (store, *_), tally = mutants.make_stores(tmp_path), Tally()
    mutants.write_hungry(store, method)
    assert store.stat().st_size < 10_000_000
    refusal = pytest.raises(InputError, match="bytes beside its weights")
    with tally.trying(method, megabytes=mutants.MEGABYTES), refusal:
        read_store(store)
    assert tally.problems == []


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@pytest.mark.parametrize("name", fuzz_targets.NAMES)
def test_inputs_that_fuzzing_found_do_no_harm(name: str) -> None:
    """With a few mutants of inputs that are right."""
    target, chance = fuzz_targets.target_of(name), random.Random(SEED_OFFSET)
    right = list(fuzz_targets.seeds(name))
    kept = [path.read_bytes() for path in sorted((fuzz_targets.CORPUS / name).glob("*"))]
    for content in (*right, *kept):
        target(content)
    for _ in range(10):
        target(fuzz_targets.mutate(name, chance.choice(right), chance))
