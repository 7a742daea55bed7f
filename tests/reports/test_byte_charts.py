from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from remnant.reports import kept_picture
from remnant.reports.charts.byte_charts import all_kept_bytes, draw_memory
from remnant.reports.groups import RunGroup
from remnant.runs.run_folder import MemoryResult, RunFolder, RunResult, read_run
from tests.support.run_folders import WriteRun


def test_what_is_kept_is_the_memory_and_four_bytes_for_each_parameter(write_run: WriteRun) -> None:
    assert all_kept_bytes(read_run(write_run("er"))) == 366_000 + 4 * 464_154
    assert all_kept_bytes(read_run(write_run("none", with_memory=False))) == 4 * 464_154
    counted = {"kept_bytes": {"network": 100, "memory": 20, "fisher": 3}}
    assert all_kept_bytes(read_run(write_run("counted", result=counted))) == 123
    assert all_kept_bytes(read_run(write_run("untold", result={"parameters": None}))) is None


def _name_heights(svg: str) -> list[float]:
    """Where the names of methods stand, in pixels from above."""
    found = re.findall(r'<text[^>]* y="([\d.]+)"[^>]*>wa-\d+<', svg)
    return sorted(float(height) for height in found)


@pytest.mark.parametrize("count", [2, 12])
def test_names_of_equal_results_do_not_cover_one_another(write_run: WriteRun, count: int) -> None:
    runs = [write_run(f"run-{index}", method=f"wa-{index}") for index in range(count)]
    heights = _name_heights(kept_picture(runs))
    assert len(heights) == count
    assert min(below - above for above, below in pairwise(heights)) > 7.5


@pytest.mark.parametrize("used", [(366_000, 366_000), (1_000, 366_000), (0, 0)])
def test_no_point_lies_at_the_edge_of_the_chart(used: tuple[int, int]) -> None:
    axes = Figure().add_subplot()
    groups = [
        RunGroup(f"er-{size}", (run_that_used(size, accuracy),))
        for size, accuracy in zip(used, (96.6, 95.2), strict=True)
    ]
    draw_memory(axes, groups)
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    for size in used:
        assert 0.02 < (size - left) / (right - left) < 0.95
    for accuracy in (96.6, 95.2):
        assert 0.2 < (accuracy - bottom) / (top - bottom) < 0.8


def run_that_used(size: int, accuracy: float) -> RunFolder:
    result = RunResult(memory=MemoryResult(used_bytes=size), average_accuracy=accuracy)
    return RunFolder(Path("nowhere"), {}, {}, result)
