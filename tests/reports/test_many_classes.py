"""Reports of runs whose classes or tasks are too many for a row each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from remnant.reports import draw_figures, draw_gallery, write_report
from remnant.reports.charts.class_charts import class_accuracies
from remnant.reports.charts.heatmaps import group_classes
from remnant.reports.page import names_text
from remnant.runs.run_folder import FIGURES, MEMORY_PICTURE, read_run, write_predictions
from tests.support.run_folders import WriteRun


@pytest.mark.parametrize(
    ("num_classes", "seen", "ends", "what"),
    [
        (1000, [*range(100, 1001, 100)], [*range(100, 1001, 100)], "task"),
        (200, [150, 200], [150, 200], "task"),
        (1000, [1000], [*range(17, 1000, 17), 1000], "group of 17 classes"),
        (200, [*range(2, 201, 2)], [*range(4, 201, 4)], "group of 4 classes"),
        (200, [], [*range(4, 201, 4)], "group of 4 classes"),
    ],
)
def test_classes_are_grouped_by_task_where_tasks_are_few(
    num_classes: int, seen: list[int], ends: list[int], what: str
) -> None:
    assert group_classes(num_classes, seen) == (ends, what)


def test_many_classes_have_a_chart_of_their_own(write_run: WriteRun) -> None:
    folder = write_run("run", num_tasks=65)  # 130 classes
    assert "classes.svg" in [path.name for path in draw_figures(folder)]
    assert "group of 3 classes" in (folder / "figures" / "confusion.svg").read_text()
    assert "Accuracy of single classes" in write_report(folder).read_text()


def test_the_accuracy_of_a_class_is_the_share_of_its_images(write_run: WriteRun) -> None:
    run = read_run(write_run("run", num_tasks=3))
    predictions = run.predictions()
    assert predictions is not None
    predicted, labels = predictions
    for label, found in enumerate(class_accuracies(run)):
        mine = predicted[labels == label]
        assert found == 100 * np.count_nonzero(mine == label) / len(mine)


def test_a_table_shows_forty_of_many_tasks(write_run: WriteRun) -> None:
    page = write_report(write_run("run", num_tasks=45)).read_text()
    assert page.count(">Task ") == 40
    assert ">Task 1<" in page
    assert ">Task 45<" in page
    assert "Of 45 tasks, 40 are shown" in page
    few = write_report(write_run("few", num_tasks=4)).read_text()
    assert few.count(">Task ") == 4
    assert "are shown; the chart" not in few


def test_many_names_are_cut_short() -> None:
    assert names_text(["a", "b"]) == "a, b"
    assert names_text([str(one) for one in range(12)]).endswith("10, 11")
    assert names_text([str(one) for one in range(100)]).endswith("8, 9 and 90 more")


def test_the_page_of_a_thousand_classes_in_ten_tasks_stays_below_5_mb(write_run: WriteRun) -> None:
    page = write_report(thousand_classes(write_run))
    assert page.stat().st_size < 5_000_000
    text = page.read_text()
    for title in ("Accuracy of single classes", "Confusion after", "What the memory holds"):
        assert title in text


def thousand_classes(write_run: WriteRun) -> Path:
    """A run folder with all that grows with classes: predictions, names, and a full gallery."""
    names = [f"n{label:08d} a synonym, and another synonym" for label in range(1000)]
    memory = {
        "budget_bytes": 3_010_560_000,
        "used_bytes": 3_000_000_000,
        "exemplars_per_class": [80] * 1000,
        "ledger": {"payload": 3_000_000_000},
    }
    result = {"task_sizes": [100] * 10, "memory": memory}
    folder = write_run("run", num_tasks=10, class_names=names, result=result)
    chance = np.random.default_rng(0)
    for task in range(10):
        labels = np.repeat(np.arange(100 * (task + 1)), 5)
        top5 = chance.integers(0, 100 * (task + 1), (len(labels), 5))
        write_predictions(folder, task, top5, labels)
    noise = [*chance.integers(0, 256, (12, 64, 64, 3), dtype=np.uint8)]  # nothing is harder to code
    draw_gallery([(name, noise) for name in names], folder / FIGURES / MEMORY_PICTURE)
    return folder
