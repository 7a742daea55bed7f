"""Fill the tables of docs/paper-scale.md: `python -m benchmarks.write_paper_scale`; takes minutes.

    <!-- paper: STUDY -->   what every row of a study takes, up to <!-- /paper -->
    <!-- paper: all -->     one line per study

Everything is counted, nothing timed, so that any machine writes the same: FLOPs of the run, hours
of a GPU that reaches a share of its peak, bytes of a step from what a forward pass keeps.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from remnant.data import DATASETS
from remnant.planning.calibration import GPU_PEAKS, GPU_SHARE
from remnant.reports.units import MISSING, bytes_text, count_text, hours_text
from remnant.studies import STUDIES
from remnant.studies.forecast import Forecast, forecast
from remnant.studies.study import Column, Row, Study
from remnant.studies.study_runs import runs_of

PAGE = Path(__file__).parents[1] / "docs" / "paper-scale.md"
GPU = "a100"
AT_PAPER_SCALE = {name: study for name, study in STUDIES.items() if "paper" in study.columns}
_BLOCK = re.compile(r"(<!-- paper: ([a-z0-9-]+) -->\n).*?(<!-- /paper -->)", re.DOTALL)

Forecasts = Mapping[str, Forecast]  # by name of the run


def fill(text: str, forecasts: Forecasts) -> str:
    """A page with what the forecasts say; a run without one is left open."""

    def table(match: re.Match[str]) -> str:
        opening, name, closing = match.groups()
        lines = _all_lines(forecasts) if name == "all" else _study_lines(STUDIES[name], forecasts)
        return opening + "\n".join(lines) + "\n" + closing

    return _BLOCK.sub(table, text)


def _all_lines(forecasts: Forecasts) -> list[str]:
    lines = [
        f"| study | data | runs | {GPU.upper()} hours | largest memory |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for study in AT_PAPER_SCALE.values():
        names = list(dict.fromkeys(run.name for run in runs_of(study, "paper")))
        known = [forecasts[name] for name in names if name in forecasts]
        sets = dict.fromkeys(DATASETS[one.run.config.data.dataset].facts.title for one in known)
        lines.append(
            f"| [{study.name}](#{study.name}) | {', '.join(sets)} | {len(names)} "
            f"| {_hours(known)} | {_memory(known)} |"
        )
    return [*lines, f"| all, shared runs once | | {len(forecasts)} "
            f"| {_hours(list(forecasts.values()))} | |"]  # fmt: skip


def _study_lines(study: Study, forecasts: Forecasts) -> list[str]:
    columns = study.columns_at("paper")
    titles = [f"{column.title}: {what}" for column in columns for what in ("FLOP", "hours")]
    lines = [
        f"| row | parameters | GPU memory | {' | '.join(titles)} |",
        "| --- |" + " ---: |" * (2 + len(titles)),
    ]
    for row in study.rows:
        cells = [_cell(study, row, column, forecasts) for column in columns]
        known = [one for one in cells if one is not None]
        if known:
            numbers = [text for one in cells for text in _cost_texts(one)]
            size = count_text(max(one.parameters for one in known))
            lines.append(f"| {row.label} | {size} | {_memory(known)} | {' | '.join(numbers)} |")
    return lines


def _cell(study: Study, row: Row, column: Column, forecasts: Forecasts) -> Forecast | None:
    if not row.preset_at("paper"):
        return None  # what was printed stands alone
    runs = runs_of(study, "paper", rows=[row.name], columns=[column.name])
    return forecasts.get(runs[0].name) if runs else None


def _cost_texts(one: Forecast | None) -> tuple[str, str]:
    if one is None:
        return MISSING, MISSING
    return f"{one.flops:.1e}", hours_text(one.gpu_hours)


def _hours(known: list[Forecast]) -> str:
    return hours_text(sum(one.gpu_hours for one in known)) if known else MISSING


def _memory(known: list[Forecast]) -> str:
    return bytes_text(max(one.gpu_bytes for one in known)) if known else MISSING


def main() -> None:
    runs = [run for study in AT_PAPER_SCALE.values() for run in runs_of(study, "paper")]
    known, unknown = forecast(runs, Path("studies/runs"), GPU, seconds=None)
    for one in unknown:
        print(f"cannot be estimated: {one.run.name} ({one.reason})")
    print(f"hours of one {GPU.upper()} at {GPU_SHARE:.0%} of {GPU_PEAKS[GPU]:.3g} FLOP/s")
    PAGE.write_text(fill(PAGE.read_text(), {one.run.name: one for one in known}))


if __name__ == "__main__":
    main()
