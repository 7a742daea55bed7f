"""Rows of equal cost: what they cost afterwards, and how their schedules look."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remnant.config import RunConfig
from remnant.planning.calibration import Speed
from remnant.planning.run_estimate import estimate
from remnant.recipes import load_recipe
from remnant.studies import forecast as forecasts
from remnant.studies.equal_terms import equal_epochs, stretched, with_epochs
from remnant.studies.study import Column, Row, Study
from remnant.studies.study_folder import StudyRequest, open_study, reopen_study
from remnant.studies.study_runs import runs_of

TINY = Column(
    "tiny",
    "Tiny",
    "digits",
    {
        "data.images_per_class": 10, "data.image_size": 8, "stream.num_classes": 4,
        "stream.num_tasks": 2, "method.first.epochs": 15,
    },
)  # fmt: skip
# ER has one phase; BiC corrects and DER tunes beside it.
STUDY = Study(
    name="tiny",
    title="Tiny",
    source="",
    question="?",
    rows=(Row("er", "ER", "er"), Row("bic", "BiC", "bic"), Row("der", "DER", "expandable")),
    columns={"smoke": (TINY,)},
)


def test_a_row_is_not_compared_with_itself() -> None:
    with pytest.raises(AssertionError, match="'er' of tiny is its own rival"):
        replace(STUDY, rows=(Row("er", "ER", "er", against="er"),))


def test_rows_made_equal_in_flops_agree_within_a_tenth() -> None:
    runs = runs_of(STUDY, "smoke")
    equal = with_epochs(runs, equal_epochs(STUDY, "smoke", runs, "flops"))
    first, *others = (estimate(run.config)["train_flops"] for run in equal)
    assert others == [pytest.approx(first, rel=0.1)] * 2
    assert equal[0] == runs[0]  # the first row is the measure
    der = equal[2].config.method.first.epochs
    assert der < 15
    assert equal[2].name == f"{runs[2].name}-{der}-epochs"


def test_every_schedule_of_a_method_is_stretched_with_its_milestones() -> None:
    config = load_recipe("cifar100-bic-10")
    before = config.method.model_dump()
    after = stretched(config, before["first"]["epochs"] // 2).method.model_dump()
    assert before["correction"]["optimizer"]["milestones"]  # or this would show nothing
    for name in ("first", "correction"):
        assert after[name]["epochs"] == before[name]["epochs"] / 2
        assert after[name]["optimizer"]["milestones"] == tuple(
            epoch / 2 for epoch in before[name]["optimizer"]["milestones"]
        )


def test_warm_up_and_what_is_done_every_few_epochs_are_stretched_too() -> None:
    dytox = load_recipe("cifar100-dytox-10").method
    longer = stretched(load_recipe("cifar100-dytox-10"), 2 * dytox.first.epochs).method
    assert longer.first.optimizer.warmup_epochs == 2 * dytox.first.optimizer.warmup_epochs > 0
    cim = load_recipe("cifar100-cim-10").method
    later = stretched(load_recipe("cifar100-cim-10"), 2 * cim.first.epochs).method
    assert later.refresh_every_epochs == 2 * cim.refresh_every_epochs  # pyright: ignore


def test_a_wrapped_method_is_stretched_and_can_be_read_again() -> None:
    config = load_recipe("cifar100-mini-mrdc")
    base = config.method.base.model_copy(update={"balanced_tuning": config.method.first})  # pyright: ignore
    longer = stretched(
        config.model_copy(update={"method": config.method.model_copy(update={"base": base})}), 60
    )
    read = RunConfig.parse(longer.model_dump(mode="json")).method
    assert (read.first.epochs, read.base.balanced_tuning.epochs) == (60, 60)  # pyright: ignore


def test_a_cost_that_does_not_depend_on_epochs_is_allowed_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def cost(config: RunConfig) -> dict[str, Any]:
        fixed = {"er": 0, "bic": 900, "expandable": 1500}[config.method.name]
        return {"train_flops": fixed + 100 * config.method.first.epochs}

    monkeypatch.setattr(forecasts, "estimate", cost)
    runs = runs_of(STUDY, "smoke", seeds=(0, 1))
    found = equal_epochs(STUDY, "smoke", runs, "flops")
    assert {run.row: found[run.name] for run in runs} == {"er": 15, "bic": 6, "der": 1}


def test_epochs_chosen_by_seconds_are_kept_with_the_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def speed(config: RunConfig, _: float) -> Speed:
        return Speed({"er": 1.0, "bic": 2.0, "expandable": 0.2}[config.method.name])

    def fail(*_: object) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr(
        forecasts, "estimate", lambda config: {"train_flops": config.method.first.epochs / 1e3}
    )
    monkeypatch.setattr(forecasts, "measure_speed", speed)
    request = StudyRequest(study="tiny", scale="smoke", equal="seconds")
    opened = open_study(STUDY, request, tmp_path)
    opened.write_request()
    assert [run.config.method.first.epochs for run in opened.runs] == [15, 30, 3]
    monkeypatch.setattr(forecasts, "measure_speed", fail)
    assert reopen_study(opened.path, STUDY).runs == opened.runs
    again = open_study(STUDY, request, tmp_path)
    assert again.runs == again.asked == opened.runs
