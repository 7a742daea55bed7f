"""Commands that carry out studies and write their pages."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from remnant.cli import console
from remnant.errors import InputError

Flag = Annotated[bool, Parameter(negative="")]


def reproduce(
    *studies: str,
    scale: Literal["smoke", "mini", "lite", "paper"] = "mini",
    seeds: str = "0",
    rows: str | None = None,
    columns: str | None = None,
    jobs: int | None = None,
    out: Path = Path("studies"),
    data_root: console.DataRoot = None,
    equal: Literal["steps", "flops", "seconds"] | None = None,
    gpu: Literal["t4", "v100", "a100", "h100"] = "a100",
    list_: Annotated[bool, Parameter(name="--list", negative="")] = False,
    dry_run: Flag = False,
) -> None:
    """Carry out tables and figures of the paper, and set what comes out beside what was printed.

    Runs that exist are not run again, and stopped ones go on where they were.

    Parameters
    ----------
    studies
        Names from `remnant reproduce --list`, or "all".
    scale
        smoke shows in minutes that everything runs; mini compares on ten classes; lite has the
        paper's streams for two cores; paper is as printed and wants GPUs.
    seeds
        One run of every cell for each, as in 0,1,2.
    rows
        Only these rows, as in baseline,full.
    columns
        Only these columns, as in 10.
    jobs
        Runs at the same time; by default one per core, or per GPU. Cores are shared out.
    out
        Folder of the studies and of their runs.
    equal
        What is made equal by changing the number of epochs: steps (as they are), flops or seconds.
    gpu
        Whose hours --dry-run tells.
    list_
        Print the studies.
    dry_run
        Print every run with images, FLOPs, hours and what is done, and run nothing.
    """
    if list_:
        _print_studies()
        return
    if not studies:
        raise InputError("name a study, as in remnant reproduce components. See --list.")
    folders = _open_studies(studies, scale, seeds, rows, columns, equal, out)
    runs = [run for folder in folders for run in folder.runs]
    if dry_run:
        _print_forecast(runs, folders[0].runs_path, gpu)
        return
    failures = _carry_out(folders, runs, jobs, data_root)
    for folder in folders:
        _print_study(folder)
    if failures:
        sys.exit(1)


def study(folder: Path, /) -> None:
    """Write the pages of a study again, from its run folders alone.

    Parameters
    ----------
    folder
        The folder of a study, such as studies/components-mini.
    """
    from remnant.studies import find_study
    from remnant.studies.study_folder import open_study, read_request

    request = read_request(folder)
    _print_study(open_study(find_study(request.study), request, folder.resolve().parent))


def _open_studies(
    names: Sequence[str],
    scale: Any,
    seeds: str,
    rows: str | None,
    columns: str | None,
    equal: Any,
    out: Path,
) -> list[Any]:
    from remnant.studies import STUDIES, find_study
    from remnant.studies.study_folder import StudyRequest, open_study

    if list(names) == ["all"]:
        names = [name for name, one in STUDIES.items() if scale in one.columns]
    folders = []
    for name in dict.fromkeys(names):
        found = find_study(name)
        request = StudyRequest(
            study=name,
            scale=scale,
            seeds=_numbers(seeds),
            rows=_names("--rows", rows),
            columns=_names("--columns", columns),
            equal=equal or found.equal,
        )
        folders.append(open_study(found, request, out))
    return folders


def _carry_out(
    folders: Sequence[Any], runs: Sequence[Any], jobs: int | None, data_root: Path | None
) -> Sequence[Any]:
    from remnant.studies.fan_out import carry_out
    from remnant.studies.forecast import check_data, check_room
    from remnant.terminal.study_progress import StudyProgress

    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs must be at least 1; got {jobs}.")
    distinct = list({run.name: run for run in runs}.values())
    place = folders[0].runs_path
    left = [run for run in distinct if not run.is_done(place)]
    check_data(left, data_root)
    check_room(left, place)
    for folder in folders:
        folder.write_request()
    with StudyProgress(console.notes, len(distinct), len(distinct) - len(left)) as progress:
        try:
            return carry_out(
                left, place, jobs or _default_jobs(), data_root=data_root, progress=progress
            )
        except KeyboardInterrupt:
            progress.close()
            console.notes.print("stopped. The same command goes on from the last checkpoints.")
            sys.exit(130)


def _default_jobs() -> int:
    """A run per GPU; without GPUs one per core: two of one thread beat one of two."""
    import torch

    return torch.cuda.device_count() or os.cpu_count() or 1


def _print_study(folder: Any) -> None:
    from remnant.studies.study_folder import PAGE
    from remnant.studies.study_page import write_pages
    from remnant.studies.study_tables import short_table, short_verdicts
    from remnant.terminal.tables import text_table

    evidence = write_pages(folder)
    for column in evidence.columns:
        console.out.print(f"\n{folder.study.title}, {column.title}", style="bold", markup=False)
        console.out.print(text_table(short_table(evidence, column)))
        judgements = [one for one in evidence.judgements() if one.column == column]
        if judgements:
            console.out.print()
            console.out.print(text_table(short_verdicts(judgements)))
    console.out.print(f"page: {folder.path / PAGE}", markup=False)


def _print_studies() -> None:
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


def _print_forecast(runs: Sequence[Any], folder: Path, gpu: str) -> None:
    from remnant.studies.forecast import CALIBRATION_SECONDS, forecast
    from remnant.terminal.tables import forecast_table

    console.notes.print(
        f"measuring this machine for about {CALIBRATION_SECONDS:.0f} s", style="dim"
    )
    forecasts = forecast(runs, folder, gpu)
    console.out.print(forecast_table(forecasts, gpu, console.out.width))
    left = [one for one in forecasts if one.state != "done"]
    console.out.print(
        f"{len(forecasts)} runs, {len(forecasts) - len(left)} done; left: "
        f"{sum(one.hours for one in left):,.1f} hours of one core here, "
        f"{sum(one.gpu_hours for one in left):,.1f} of one {gpu.upper()} at 30 % of its peak."
    )


def _numbers(text: str) -> list[int]:
    parts = _names("--seeds", text)
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise InputError(f"--seeds takes whole numbers, as in 0,1,2; got {text!r}.")
    return [int(part) for part in dict.fromkeys(parts)]


def _names(option: str, text: str | None) -> list[str]:
    parts = [] if text is None else [part.strip() for part in text.split(",")]
    if not all(parts):
        raise InputError(f"{option} takes values with commas between them; got {text!r}.")
    return parts
