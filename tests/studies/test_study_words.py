"""What a page says of its terms is what holds for its runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from remnant.studies import STUDIES, StudyScale
from remnant.studies.study_folder import StudyFolder, StudyRequest
from remnant.studies.study_runs import runs_of
from remnant.studies.study_words import averaged_text, terms_text


def words(name: str, scale: StudyScale, seeds: tuple[int, ...] = (0,), **asked: str) -> str:
    study = STUDIES[name]
    request = StudyRequest.model_validate(
        {"study": name, "scale": scale, "seeds": list(seeds), **asked}
    )
    return terms_text(StudyFolder(Path(), study, request, runs_of(study, scale, seeds)))


@pytest.mark.parametrize(
    ("name", "scale", "sentence"),
    [
        ("cifar100", "paper", "Schedules are as published, so that rows differ in steps."),
        ("cifar100", "mini", "Equal for all rows: steps of the main phase; tuning phases may"),
        ("cifar100", "lite", "Equal for all rows: steps of the main phase; tuning phases may"),
        ("demo", "mini", "Equal for all rows: steps of the main phase"),
        ("storage", "smoke", "Every row has the schedule of its recipe"),  # exemplars add steps
    ],
)
def test_steps_are_called_equal_only_where_they_are(
    name: str, scale: StudyScale, sentence: str
) -> None:
    assert words(name, scale).startswith(sentence)


@pytest.mark.parametrize(("name", "has_more"), [("budgets", True), ("components", False)])
def test_more_steps_of_masked_training_are_told(name: str, has_more: bool) -> None:
    assert ("Masked training has more steps" in words(name, "mini")) == has_more


def test_what_was_made_equal_is_named() -> None:
    assert words("components", "mini", equal="flops").startswith(
        "Equal for all rows, as nearly as whole epochs allow: FLOPs."
    )


def test_seeds_are_told_with_their_class_orders() -> None:
    assert words("components", "mini", (0, 2)).endswith(
        "Seeds 0, 2, all with the same class order."
    )
    assert words("budgets", "mini", (0, 1, 3)).endswith(
        "Seeds, each with its class order: 0 (default), 1 (dytox-2), 3 (default)."
    )
    assert averaged_text(STUDIES["components"]) == "seeds alone"
    assert averaged_text(STUDIES["budgets"]) == "seeds, each with its own class order"
