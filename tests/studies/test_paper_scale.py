"""The page about the paper's scale names every study, and its tables fill themselves."""

from __future__ import annotations

import re

from benchmarks.write_paper_scale import AT_PAPER_SCALE, PAGE, fill
from remnant.studies import STUDIES
from remnant.studies.forecast import Forecast
from remnant.studies.study_runs import runs_of

TEXT = PAGE.read_text()


def test_every_study_has_its_command_and_its_table() -> None:
    for name in AT_PAPER_SCALE:
        assert f"\n### {name}\n" in TEXT, name
        assert f"remnant reproduce {name} --scale paper" in TEXT, name
        assert f"| [{name}](#{name}) |" in TEXT, (
            f"{name}: run python -m benchmarks.write_paper_scale"
        )


def test_every_row_of_the_paper_stands_in_its_table() -> None:
    blocks = re.findall(r"<!-- paper: ([a-z0-9-]+) -->\n(.*?)<!-- /paper -->", TEXT, re.DOTALL)
    for name, block in blocks:
        if name == "all":
            continue
        rows = {run.row for run in runs_of(STUDIES[name], "paper")}
        for row in rows:
            label = STUDIES[name].row(row).label
            assert f"| {label} |" in block, f"{name}: run python -m benchmarks.write_paper_scale"


def test_a_table_says_what_the_forecasts_do() -> None:
    run = runs_of(STUDIES["detail-domain"], "paper", rows=["full"])[0]
    known = Forecast(run, "to do", 10, 3e17, 12_900_000, None, 12.34, 5 << 30)
    filled = fill("<!-- paper: detail-domain -->\nold\n<!-- /paper -->", {run.name: known})
    assert "| Frequency | 12.9 M | 5.00 GiB | 3.0e+17 | 12.3 h |" in filled
    assert "old" not in filled
    assert "Spatial" not in filled
    whole = fill("<!-- paper: all -->\n<!-- /paper -->", {run.name: known})
    assert "| [detail-domain](#detail-domain) | CIFAR-100 | 2 | 12.3 h | 5.00 GiB |" in whole
