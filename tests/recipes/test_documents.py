"""The numbers in the documents are those of the presets and of the runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks.write_results import DOCS, KEPT, PAGES, fill_numbers, fill_runs, measured, trials
from remnant.recipes.recipe import MEASURED, TRIALS

REMEDY = "run python -m benchmarks.write_results"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_the_numbers_of_the_presets(page: Path) -> None:
    text = page.read_text()
    assert fill_numbers(text) == text, REMEDY


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_tables_of_runs_are_those_of_the_runs_that_are_kept(page: Path) -> None:
    text = page.read_text()
    assert fill_runs(text) == text, REMEDY


def test_filling_a_page_writes_no_file() -> None:
    before = {path: path.stat().st_mtime_ns for path in (DOCS / "figures").iterdir()}
    fill_numbers("<!-- figure: density mini -->\n<!-- /figure -->")
    assert {path: path.stat().st_mtime_ns for path in (DOCS / "figures").iterdir()} == before


def test_what_recipes_say_was_measured_is_what_the_runs_gave() -> None:
    assert json.loads(MEASURED.read_bytes()) == measured(), REMEDY


def test_trials_are_counted_from_the_runs_that_are_kept() -> None:
    assert json.loads(TRIALS.read_bytes()) == trials(), REMEDY


def test_every_trial_is_told_on_a_page() -> None:
    text = " ".join(page.read_text() for page in PAGES)
    told = {name for names in re.findall(r"<!-- \w+: ([^>]*?) -->", text) for name in names.split()}
    assert {path.name for path in KEPT.glob("trial-*")} <= told


def test_a_wrong_number_is_mended() -> None:
    line = "<!-- printed: cifar100-bimae-10 -->1.00 / 2.00<!-- / -->"
    block = "<!-- published: wa -->\nold\n<!-- /published -->"
    filled = fill_numbers(f"{line}\n{block}")
    assert "79.12 / 68.40 / 12.17<!-- / -->" in filled
    assert "| `cifar100-wa-10` | about Last 52 | PyCIL; read off its plot | not yet |\n" in filled
    assert "old" not in filled
