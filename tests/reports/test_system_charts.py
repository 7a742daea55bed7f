"""Charts of several systems, each with one run or more."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from remnant.reports.charts.canvas import on_white
from remnant.reports.charts.system_charts import curves_chart, density_chart
from remnant.reports.groups import RunGroup
from remnant.runs.run_folder import read_run
from tests.support.run_folders import WriteRun


def with_density(pi: float) -> dict[str, Any]:
    return {"density": {"pi": pi, "intra": 0.6, "inter": 0.6 / pi, "pi_roth": 1.0}}


def groups(systems: Mapping[str, Sequence[Path]]) -> list[RunGroup]:
    return [RunGroup(name, tuple(map(read_run, runs))) for name, runs in systems.items()]


def test_a_system_is_one_line_whatever_its_runs_are_called(write_run: WriteRun) -> None:
    runs = [
        write_run(f"run-{seed}", seed=seed, accuracies=[90, 80, 70.0 + seed]) for seed in (0, 2)
    ]
    one = curves_chart(groups({"Ours": runs[:1], "Replay": [write_run("er")]}))
    two = curves_chart(groups({"Ours": runs, "Replay": [runs[0].parent / "er"]}))
    assert ">Ours<" in one
    assert ">Replay<" in one
    assert one.count("FillBetween") == 0
    assert two.count("FillBetween") == 1  # a band


def test_printed_end_points_are_hollow_marks(write_run: WriteRun) -> None:
    systems = groups({"Ours": [write_run("a")], "Replay": [write_run("b")]})
    plain, marked = curves_chart(systems), curves_chart(systems, {"Ours": 68.4})
    assert "reported" not in plain
    assert ">hollow: reported, after the last task<" in marked


def test_density_has_a_row_and_a_number_for_each_system(write_run: WriteRun) -> None:
    ours = [write_run(f"a{seed}", seed=seed, result=with_density(2.0 + seed)) for seed in (0, 1)]
    other = [write_run("b", result=with_density(1.25))]
    svg = density_chart(groups({"Ours": ours, "Replay": other, "None": [write_run("c")]}))
    words = re.findall(r">([^<>]+)</text>", svg)
    assert {"Ours", "Replay", "2.50", "1.25"} <= set(words)
    assert "None" not in words
    assert "currentColor" in svg
    assert "currentColor" not in on_white(svg)
