"""Every study is complete: its rows have presets, its columns protocols, its claims rows."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import pytest

from remnant.data import describe_dataset
from remnant.data.stream import resolve_tasks
from remnant.errors import InputError
from remnant.recipes import PRESETS, PROTOCOLS
from remnant.studies import STUDIES, Study, StudyScale, find_study
from remnant.studies.equal_terms import equal_epochs, with_epochs
from remnant.studies.study import Row
from remnant.studies.study_runs import is_same, runs_of

SCALES = [(study, scale) for study in STUDIES.values() for scale in study.columns]
NAMES = [f"{study.name}-{scale}" for study, scale in SCALES]
PAPER = {
    "cifar100", "imagenet-subset", "imagenet-full", "components", "mask-ratio", "detail-domain",
    "fine-ratio", "model-size", "buffer", "memory-efficient", "density", "reconstructions",
    "detail-example",
}  # fmt: skip


def test_every_table_and_figure_of_the_paper_is_a_study() -> None:
    assert set(STUDIES) >= PAPER
    assert all(STUDIES[name].source for name in PAPER)
    assert all({"smoke", "mini", "paper"} <= set(STUDIES[name].columns) for name in PAPER)


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_refers_to_what_exists(name: str) -> None:
    study = STUDIES[name]
    rows = [row.name for row in study.rows]
    assert len(set(rows)) == len(rows)
    for row in study.rows:
        assert {row.preset, row.paper} <= {"", *PRESETS}
        assert not row.against or row.against in rows
    for claim in study.claims:
        assert claim.row in rows
        assert not claim.against or claim.against in rows
    for columns in study.columns.values():
        assert {column.protocol for column in columns} <= set(PROTOCOLS)
        assert {column.printed for column in columns} <= {"", *PROTOCOLS}


@pytest.mark.parametrize(("study", "scale"), SCALES, ids=NAMES)
def test_every_row_runs_under_every_column(study: Study, scale: StudyScale) -> None:
    runs = runs_of(study, scale)
    cells = {(run.row, run.column) for run in runs}
    missing = [
        (row.name, column.name)
        for row in study.rows
        for column in study.columns[scale]
        if row.preset and (row.name, column.name) not in cells
    ]
    assert missing == []


def test_one_name_stands_for_one_run_in_all_studies() -> None:
    by_name: dict[str, object] = {}
    for study, scale in SCALES:
        for run in runs_of(study, scale, seeds=(0, 1)):
            other = by_name.setdefault(run.name, run.config)
            assert is_same(run.config, other), run.name


@pytest.mark.parametrize(("study", "scale"), SCALES, ids=NAMES)
def test_one_run_has_one_name_within_a_study(study: Study, scale: StudyScale) -> None:
    runs = list({run.name: run for run in runs_of(study, scale)}.values())
    essences = [run.config.model_dump_json(exclude={"recipe"}) for run in runs]
    assert len(set(essences)) == len(runs)


def test_seeds_differ_in_seed_and_name_alone() -> None:
    zero, one = runs_of(STUDIES["components"], "mini", (0, 1), ["full"], ["published"])
    assert (zero.name, one.name) == ("cifar100-mini-bimae-full", "cifar100-mini-bimae-full-seed-1")
    assert one.config.model_copy(update={"seed": 0}) == zero.config


@pytest.mark.parametrize(("study", "scale"), SCALES, ids=NAMES)
def test_rows_of_a_column_learn_the_classes_in_one_order(study: Study, scale: StudyScale) -> None:
    orders: dict[str, set[tuple[int, ...]]] = {}
    for run in runs_of(study, scale):
        tasks = resolve_tasks(run.config.stream, describe_dataset(run.config.data))
        orders.setdefault(run.column, set()).add(tuple(chain.from_iterable(tasks)))
        assert scale == "paper" or "-order-" not in run.name
    assert {len(found) for found in orders.values()} == {1}


def test_a_run_has_another_name_only_where_its_order_is_another() -> None:
    def name(study: str, row: str) -> str:
        return runs_of(STUDIES[study], "paper", rows=[row], columns=["10"])[0].name

    # Published in another order, and in the default one under its own name.
    assert name("cifar100", "ucir") == "cifar100-ucir-10-order-default"
    assert name("cifar100", "dytox") == name("model-size", "dytox") == "cifar100-dytox-10"


def test_the_name_of_a_run_does_not_depend_on_what_else_is_asked_for() -> None:
    (alone,) = runs_of(STUDIES["budgets"], "mini", rows=["joint-conv"], columns=["60KiB"])
    every = runs_of(STUDIES["budgets"], "mini")
    assert {run.name for run in every if run.row == "joint-conv"} == {alone.name}


def test_columns_change_what_a_method_has() -> None:
    runs = runs_of(STUDIES["cifar100"], "mini", rows=["er", "bimae"])
    sampling = {(run.row, run.column): run.config.method.first.sampling for run in runs}
    assert sampling["er", "published"] == "union"
    assert sampling["er", "balanced"] == "balanced"
    # Bilateral MAE is balanced anyway, so both columns have the same run.
    assert len({run.name for run in runs if run.row == "bimae"}) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("mini", (0,), ["ful"]), "Did you mean full?"),
        (("mini", (0,), [], ["symetric"]), "Did you mean symmetric?"),
        (("huge",), "it has smoke, mini, lite, paper"),
    ],
)
def test_unknown_names_are_refused(arguments: tuple, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        runs_of(STUDIES["components"], *arguments)


def test_a_row_that_is_printed_alone_has_no_run() -> None:
    study = replace(STUDIES["components"], rows=(Row("else", "Somebody else's", ""),))
    assert runs_of(study, "mini") == []
    with pytest.raises(InputError, match="else of components is not in remnant yet"):
        runs_of(study, "mini", rows=["else"])


def test_rows_of_equal_cost_have_names_that_tell_their_epochs() -> None:
    study = STUDIES["detail-domain"]
    runs = runs_of(study, "smoke")
    epochs = equal_epochs(study, "smoke", runs, "flops")
    spatial, full = with_epochs(runs, epochs | {runs[1].name: 3})
    assert spatial == runs[0]  # the first row is the measure
    assert full.name == f"{runs[1].name}-3-epochs"
    assert full.config.method.first.epochs == 3


def test_an_unknown_study_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="Did you mean components"):
        find_study("component")


@pytest.mark.parametrize(("study", "row"), [("components", "baseline"), ("buffer", "dytox")])
def test_raw_exemplars_have_one_run_for_both_presentations(study: str, row: str) -> None:
    names = {run.name for run in runs_of(STUDIES[study], "mini", rows=[row])}
    assert len(names) == 1
    others = {run.name for run in runs_of(STUDIES[study], "mini", rows=["full"])}
    assert len(others) == 2
