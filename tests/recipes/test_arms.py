"""The list of what was tried for the flagship: its pairs, its rule and its table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.arms import ARMS, Arm, changes_between, is_kept_by_rule
from benchmarks.write_results import KEPT, PAGES, fill_arms
from remnant.runs.run_folder import read_run


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_table_is_that_of_the_runs_that_are_kept(page: Path) -> None:
    text = page.read_text()
    assert fill_arms(text) == text, "run python -m benchmarks.write_results"


@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: f"{arm.tried}, {arm.budget}")
def test_the_runs_of_a_pair_see_the_same_images_of_the_same_classes(arm: Arm) -> None:
    for pair in arm.pairs:
        one, other = (read_run(KEPT / f"trial-{name}").config for name in pair)
        assert one["seed"] == other["seed"]
        assert one["data"] == other["data"]
        orders = sorted((run["stream"]["order"] for run in (one, other)), key=len)
        assert orders[0] == orders[1][: len(orders[0])]
        assert one["memory"]["budget"] == other["memory"]["budget"]


@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: f"{arm.tried}, {arm.budget}")
def test_a_decision_against_the_rule_says_why(arm: Arm) -> None:
    is_kept = is_kept_by_rule(*arm.changes(KEPT))
    assert arm.decision != ("dropped" if is_kept else "**kept**")


def test_runs_of_unequal_length_are_compared_after_the_tasks_of_both() -> None:
    base, arm = (KEPT / f"trial-conv-f6-{name}" for name in ("q50-cv0-bal-a", "q30-cv0-bal-a4"))
    three, two = (json.loads((path / "result.json").read_bytes()) for path in (base, arm))
    before, after = (result["accuracies"] for result in (three, two))
    assert (len(before), len(after)) == (3, 2)
    average, last, forgetting = changes_between(read_run(base), read_run(arm))
    assert average == pytest.approx((after[0] + after[1]) / 2 - (before[0] + before[1]) / 2)
    assert last == pytest.approx(after[1] - before[1])
    losses = [run["accuracy_matrix"][0][0] - run["accuracy_matrix"][1][0] for run in (three, two)]
    assert forgetting == pytest.approx(losses[1] - losses[0])


@pytest.mark.parametrize(
    ("changes", "is_kept"),
    [((2, 0, 2), True), ((0.9, 1, 0), False), ((9, 9, 2.1), False), ((-1, 4, -5), True)],
)
def test_the_rule_asks_for_a_point_and_bounds_forgetting(
    changes: tuple[float, float, float], is_kept: bool
) -> None:
    assert is_kept_by_rule(*changes) is is_kept
