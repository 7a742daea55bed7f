from __future__ import annotations

import re
from typing import Any

import pytest

from remnant.errors import InputError
from remnant.reports import curves_figure, density_figure, on_white
from tests.support.run_folders import WriteRun


def with_density(pi: float) -> dict[str, Any]:
    return {"density": {"pi": pi, "intra": 0.6, "inter": 0.6 / pi, "pi_roth": 1.0}}


def test_a_system_is_one_line_whatever_its_runs_are_called(write_run: WriteRun) -> None:
    runs = [
        write_run(f"run-{seed}", seed=seed, accuracies=[90, 80, 70.0 + seed]) for seed in (0, 2)
    ]
    one = curves_figure({"Ours": runs[:1], "Replay": [write_run("er")]})
    two = curves_figure({"Ours": runs, "Replay": [runs[0].parent / "er"]})
    assert ">Ours<" in one
    assert ">Replay<" in one
    assert one.count("FillBetween") == 0
    assert two.count("FillBetween") == 1  # a band


def test_printed_end_points_are_hollow_marks(write_run: WriteRun) -> None:
    systems = {"Ours": [write_run("a")], "Replay": [write_run("b")]}
    plain, marked = curves_figure(systems), curves_figure(systems, {"Ours": 68.4})
    assert "printed" not in plain
    assert ">hollow: printed, after the last task<" in marked


def test_density_has_a_row_and_a_number_for_each_system(write_run: WriteRun) -> None:
    ours = [write_run(f"a{seed}", seed=seed, result=with_density(2.0 + seed)) for seed in (0, 1)]
    other = [write_run("b", result=with_density(1.25))]
    svg = density_figure({"Ours": ours, "Replay": other, "None": [write_run("c")]})
    words = re.findall(r">([^<>]+)</text>", svg)
    assert {"Ours", "Replay", "2.50", "1.25"} <= set(words)
    assert "None" not in words
    assert "currentColor" in svg
    assert "currentColor" not in on_white(svg)


def test_what_cannot_be_drawn_is_refused(write_run: WriteRun) -> None:
    with pytest.raises(InputError, match="needs a run that measured it"):
        density_figure({"Ours": [write_run("a")]})
    with pytest.raises(InputError, match="Ours must have a finished run"):
        curves_figure({"Ours": [write_run("b", num_done=1)]})
    with pytest.raises(InputError, match="tasks of the same sizes"):
        curves_figure({"Ours": [write_run("c"), write_run("d", num_tasks=2)]})
    with pytest.raises(InputError, match="at least one system"):
        curves_figure({})
