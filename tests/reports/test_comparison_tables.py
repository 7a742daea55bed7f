"""Tables of the comparison page beside the results."""

from __future__ import annotations

from remnant.reports import write_comparison
from remnant.reports.comparison_tables import settings_table, task_tables
from remnant.reports.groups import read_groups
from tests.support.run_folders import WriteRun


def test_settings_that_all_groups_have_come_before_those_of_one(write_run: WriteRun) -> None:
    folders = [
        write_run("er", settings={"method": {"mixes": 0.5, "epochs": 5}}),
        write_run("wa", method="wa", settings={"method": {"mixes": None, "epochs": 6}}),
    ]
    table = settings_table(read_groups(folders)[0])
    assert table.headers == ["Setting", "er", "wa"]
    assert table.rows == [["method.epochs", "5", "6"], ["method.mixes", "0.5", "–"]]


def test_accuracy_after_each_task_is_the_mean_of_a_group(write_run: WriteRun) -> None:
    folders = [
        write_run("er-0", accuracies=[90.0, 80.0, 70.0]),
        write_run("er-1", accuracies=[90.0, 82.0, 74.0], seed=1),
        write_run("wa", method="wa", num_tasks=2, accuracies=[95.0, 60.0]),
    ]
    (table,) = task_tables(read_groups(folders)[0])
    assert table.headers == ["Method", "Task 1", "Task 2", "Task 3"]
    assert table.rows == [
        ["er", "90.00 ± 0.00", "81.00 ± 1.41", "72.00 ± 2.83"],
        ["wa", "95.00", "60.00", ""],
    ]


def test_one_task_alone_has_no_table(write_run: WriteRun) -> None:
    assert task_tables(read_groups([write_run("joint", num_tasks=1)])[0]) == []


def test_what_differs_stands_unfolded_below_the_results(write_run: WriteRun) -> None:
    folders = [write_run(f"run-{n}", settings={"training": {"epochs": n}}) for n in (5, 6)]
    page = write_comparison(folders, folders[0].parent / "page.html").read_text()
    places = [page.index(f'id="{name}"') for name in ("results", "settings", "tasks", "charts")]
    assert places == sorted(places)
    between = page[places[1] : places[2]]
    assert "training.<wbr>epochs" in between
    assert "<details" not in page[: places[3]]
    alone = write_comparison(folders[:1], folders[0].parent / "alone.html").read_text()
    assert 'id="settings"' not in alone
