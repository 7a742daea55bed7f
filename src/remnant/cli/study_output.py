"""Studies as a terminal shows them: tables, verdicts, the list of all, and what runs will take."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from remnant.cli import console


def print_study(folder: Any) -> Any:
    from remnant.studies.study_folder import PAGE
    from remnant.studies.study_page import write_pages
    from remnant.studies.study_tables import short_table, short_verdicts
    from remnant.studies.winner import ranking, verdict
    from remnant.terminal.tables import text_table

    evidence = write_pages(folder)
    for column in evidence.columns:
        title = folder.study.title
        if not title.endswith(f" {column.title}"):  # as that of a contest does
            title += f", {column.title}"
        console.out.print(f"\n{title}", style="bold", markup=False)
        console.out.print(text_table(short_table(evidence, column)))
        judgements = [one for one in evidence.judgements() if one.column == column]
        if judgements:
            console.out.print()
            console.out.print(text_table(short_verdicts(judgements)))
        ranked = ranking(evidence, column)
        if folder.study.tells_winner and len(ranked) > 1:
            console.out.print(f"\n{verdict(ranked)}", style="bold", markup=False)
    console.out.print(f"page: {folder.path / PAGE}", markup=False)
    return evidence


def print_studies() -> None:
    from remnant.studies import STUDIES
    from remnant.terminal.tables import table_of

    rows = [
        {
            "study": one.name,
            "scales": " ".join(one.columns),
            "rows": len(one.rows),
            "about": f"{one.title} ({one.source or 'ours'})",
        }
        for one in STUDIES.values()
    ]
    console.out.print(table_of(rows))
    console.suggest("remnant reproduce components --scale smoke")


def print_forecast(runs: Sequence[Any], folder: Path, gpu: str) -> None:
    from remnant.studies.forecast import CALIBRATION_SECONDS, forecast
    from remnant.terminal.tables import forecast_table

    console.notes.print(
        f"measuring this machine for about {CALIBRATION_SECONDS:.0f} s", style="dim"
    )
    known, unknown = forecast(runs, folder, gpu)
    console.out.print(forecast_table(known, gpu, console.out.width))
    for one in unknown:
        console.out.print(f"cannot be estimated: {one.run.name} ({one.reason})", markup=False)
    total = len(known) + len(unknown)
    left = [one for one in known if one.state != "done"]
    console.out.print(
        f"{total} runs, {len(known) - len(left)} done; left: "
        f"{sum(one.hours or 0.0 for one in left):,.1f} hours of one core here, "
        f"{sum(one.gpu_hours for one in left):,.1f} of one {gpu.upper()} at 30 % of its peak."
    )
