"""On which terms the rows of a study meet, in words: what is equal for all, seeds and orders."""

from __future__ import annotations

from collections.abc import Sequence

from remnant.methods.bimae import BiMAEConfig
from remnant.studies.study import Study, StudyScale
from remnant.studies.study_folder import StudyFolder
from remnant.studies.study_runs import StudyRun


def terms_text(folder: StudyFolder) -> str:
    """What a page says before its tables."""
    request = folder.request
    return f"{_cost_text(folder)} {_seeds_text(folder.study, request.seeds)}"


def averaged_text(study: Study) -> str:
    """What a mean and its deviation are taken over."""
    return "seeds, each with its own class order" if len(study.orders) > 1 else "seeds alone"


def _cost_text(folder: StudyFolder) -> str:
    request = folder.request
    if request.equal != "steps":
        name = {"flops": "FLOPs", "seconds": "seconds"}[request.equal]
        return f"Equal for all rows, as nearly as whole epochs allow: {name}."
    return _steps_text(request.scale, folder.runs)


def _steps_text(scale: StudyScale, runs: Sequence[StudyRun]) -> str:
    """Nothing is changed to make steps equal, so that this says whether they are."""
    if scale == "paper":
        return "Schedules are as published, so that rows differ in steps."
    if all(_have_equal_steps(runs, column) for column in {run.column for run in runs}):
        text = "Equal for all rows: steps of the main phase; tuning phases may differ."
        methods = [run.config.method for run in runs]
        if any(isinstance(one, BiMAEConfig) and one.view == "window" for one in methods):
            text += " Masked training has more steps, as many as take the same arithmetic."
        return text
    return "Every row has the schedule of its recipe, so that rows may differ in steps."


def _have_equal_steps(runs: Sequence[StudyRun], column: str) -> bool:
    methods = [run.config.method for run in runs if run.column == column]
    parts = [(method.first, method.later or method.first) for method in methods]
    lengths = {tuple((one.epochs, one.batch_size) for one in pair) for pair in parts}
    # Where exemplars lengthen an epoch, who keeps more of them takes more steps.
    is_by_new = all(one.steps_from == "new" for pair in parts for one in pair)
    return len(lengths) <= 1 and (is_by_new or len(methods) <= 1)


def _seeds_text(study: Study, seeds: Sequence[int]) -> str:
    if len(study.orders) > 1:
        orders = [f"{seed} ({study.orders[seed % len(study.orders)]})" for seed in seeds]
        return f"Seeds, each with its class order: {', '.join(orders)}."
    if len(seeds) == 1:
        return f"Seed {seeds[0]}."
    return f"Seeds {', '.join(map(str, seeds))}, all with the same class order."
